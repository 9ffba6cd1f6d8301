// Who is compared: how each is started, with which settings it is tried, and why one is missing.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { howItEnded, lastJson } from '../lib/runProcess.mjs';
import { batchedBenchArguments, readBatchedBench } from './batchedBench.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** What Spillway may do, llama.cpp may too. */
const EIGHT_BIT_CACHE = ['-fa', 'on', '-ctk', 'q8_0', '-ctv', 'q8_0'];

/**
 * @typedef {object} Contender
 * @property {string} name unique, e.g. `node-llama-cpp Q4_0`
 * @property {string} tool
 * @property {string} model path of the file that it runs
 * @property {object[]} settings those of the sweep; the first one is the usual one, and the only one of a type where a tool is slow
 * @property {(setting: object) => number} [sequencesOf] of a tool that takes the cache of all sequences at once: how
 *   many, and with `elementBytes` how large it is
 * @property {boolean} [stopsItself] when the job's time limit comes, with figures of what was done
 * @property {(job: object, setting: object) => {program: string, args: string[]}} command
 * @property {(output: object) => object} figures of a run that has ended; throws an Error that says why there are none
 */

function jsonFigures(output) {
  const figures = output.code === 0 ? lastJson(output.stdout) : undefined;
  if (figures === undefined) throw new Error(howItEnded(output, output.timeLimitSeconds));
  return figures;
}

function script(program, file) {
  return (job, setting) => ({ program, args: [join(HERE, file), JSON.stringify({ ...job, setting })] });
}

/** Of tools whose sequences have their whole cache from the start, in 16 bits unless the setting says 8. */
const WHOLE_CACHE = {
  sequencesOf: ({ sequences, batchSize }) => sequences ?? batchSize,
  elementBytes: ({ dtype, arguments: own = [] }) => (own.includes('q8_0') ? 34 / 32 : dtype === 'float32' ? 4 : 2),
};
const pairs = (list) => list.map(([sequences, batchedTokens]) => ({ sequences, batchedTokens }));

export function spillway(name, model, settings = [{}, { compressCache: '8bit' }]) {
  return { name, tool: 'spillway', model, settings, stopsItself: true, command: script(process.execPath, 'runSpillway.mjs'), figures: jsonFigures };
}

export function nodeLlamaCpp(name, model, settings = [64, 32, 8].map((sequences) => ({ sequences }))) {
  return { name, tool: 'node-llama-cpp', model, settings, ...WHOLE_CACHE, stopsItself: true, command: script(process.execPath, 'runNodeLlamaCpp.mjs'), figures: jsonFigures };
}

/**
 * transformers; `python`: an interpreter that has torch, transformers and gguf. bfloat16 is slow without instructions
 * for it, so it is tried last.
 */
export function torch(name, model, python) {
  const settings = [['float32', 32], ['float32', 64], ['bfloat16', 32], ['bfloat16', 64]].map(([dtype, batchSize]) => ({ dtype, batchSize }));
  return { name, tool: 'transformers', model, settings, ...WHOLE_CACHE, stopsItself: true, command: script(python, 'runTorch.py'), figures: jsonFigures };
}

/**
 * By the GGUF file itself, or, where `irFolder` is given, from the same model as an IR; `python`: an interpreter that has
 * openvino-genai. Its usual setting is 256 of both.
 */
export function openvino(name, model, python, irFolder) {
  const settings = pairs([[128, 512], [256, 256], [64, 512], [128, 2048]]);
  const start = script(python, 'runOpenvino.py');
  return { name, tool: 'openvino', model, settings, stopsItself: true, command: (job, setting) => start({ ...job, irFolder }, setting), figures: jsonFigures };
}

/**
 * vLLM, compiled; `python`: an interpreter that has it for the CPU, `hfFolder` the same model as it reads it. Its usual
 * setting comes first. A type is a contender of its own, as compiling takes minutes and which is faster depends on the
 * processor.
 */
export function vllm(name, model, { python, hfFolder, dtype }) {
  const settings = pairs([[256, 4096], [128, 2048], [64, 2048], [128, 512]]).map((setting) => ({ dtype, ...setting }));
  const start = script(python, 'runVllm.py');
  return { name, tool: 'vllm', model, settings, stopsItself: true, command: (job, setting) => start({ ...job, hfFolder }, setting), figures: jsonFigures };
}

/** @param {string} program llama-batched-bench, as buildLlamaCpp.mjs makes it */
export function batchedBench(name, tool, model, program, settings) {
  const versionFile = join(dirname(program), '..', 'version.txt');
  const version = existsSync(versionFile) ? readFileSync(versionFile, 'utf8').trim() : 'of unknown version';
  return {
    name, tool, model, settings, ...WHOLE_CACHE,
    command: (job, setting) => ({ program, args: batchedBenchArguments({ ...job, promptTokens: job.meanPromptTokens }, setting) }),
    figures: (output) => {
      const figures = output.code === 0 ? readBatchedBench(`${output.stdout}\n${output.stderr}`) : undefined;
      if (figures === undefined) throw new Error(howItEnded(output, output.timeLimitSeconds));
      return { version, synthetic: true, ...figures };
    },
  };
}

/**
 * All that are here, and the reasons why others are not.
 *
 * @param {{model: string, q4_0?: string, type: string, python?: string, openvinoPython?: string, vllmPython?: string, hfFolder?: string, w8a8Folder?: string,
 * irFolders?: {int8?: string, int4?: string}, llamaCpp: string, ikLlamaCpp: string}} given `type`: in words, of the model's weights; `q4_0`: the same model in Q4_0; the folders are
 * for vLLM, `irFolders` for OpenVINO; the last two are paths of llama-batched-bench
 * @returns {{contenders: Contender[], missing: {name: string, reason: string}[]}}
 */
export function allContenders({ model, q4_0, type, python, openvinoPython, vllmPython, hfFolder, w8a8Folder, irFolders, llamaCpp, ikLlamaCpp }) {
  const missing = [];
  const files = [[type, model], ...(q4_0 === undefined ? [] : [['Q4_0', q4_0]])];
  if (q4_0 === undefined) missing.push({ name: 'Q4_0', reason: 'no such file was given: bench/models/requantise.py makes one, --q4-0 names it' });
  const contenders = [];
  for (const [words, file] of files) {
    contenders.push(spillway(`spillway ${words}`, file));
    if (file === model) contenders.push(spillway(`spillway ${words} int8`, file, [{ weightsLayout: 'int8' }]));
    if (existsSync(join(HERE, 'node_modules/node-llama-cpp'))) contenders.push(nodeLlamaCpp(`node-llama-cpp ${words}`, file));
    if (existsSync(llamaCpp)) {
      const settings = [...[64, 32, 8, 128].map((sequences) => ({ sequences })), { sequences: 128, arguments: EIGHT_BIT_CACHE }];
      contenders.push(batchedBench(`llama.cpp ${words}`, 'llama.cpp', file, llamaCpp, settings));
    }
    if (existsSync(ikLlamaCpp)) {
      // -rtr interleaves rows while loading, its way to be fast with batches.
      const settings = [8, 32].flatMap((sequences) => [{ sequences, arguments: ['-fa', 'on', '-rtr'] }, { sequences, arguments: ['-fa', 'on'] }]);
      contenders.push(batchedBench(`ik_llama.cpp ${words}`, 'ik_llama.cpp', file, ikLlamaCpp, settings));
    }
  }
  if (!existsSync(join(HERE, 'node_modules/node-llama-cpp'))) missing.push({ name: 'node-llama-cpp', reason: 'not installed: npm install --ignore-scripts --prefix bench/peers' });
  if (!existsSync(llamaCpp)) missing.push({ name: 'llama.cpp', reason: 'not built: node bench/peers/buildLlamaCpp.mjs' });
  if (!existsSync(ikLlamaCpp)) missing.push({ name: 'ik_llama.cpp', reason: 'not built: node bench/peers/buildLlamaCpp.mjs --source CHECKOUT --name ik_llama.cpp' });
  if (python === undefined) missing.push({ name: 'transformers', reason: 'no --python was given (one that has torch, transformers, gguf)' });
  else contenders.push(torch('transformers (torch)', model, python));
  if (openvinoPython === undefined) missing.push({ name: 'OpenVINO GenAI', reason: 'no --openvino was given (a python that has openvino-genai)' });
  else {
    contenders.push(openvino(`OpenVINO GenAI ${type}`, model, openvinoPython));
    if (irFolders === undefined) missing.push({ name: 'OpenVINO GenAI int8 and int4', reason: 'no --optimum was given (a python that has optimum-intel and nncf)' });
    else for (const words of ['int8', 'int4']) contenders.push(openvino(`OpenVINO GenAI ${words}`, model, openvinoPython, irFolders[words]));
  }
  if (vllmPython === undefined) missing.push({ name: 'vLLM', reason: 'no --vllm was given (a python that has vllm for the CPU)' });
  else {
    for (const dtype of ['bfloat16', 'float32']) contenders.push(vllm(`vLLM ${dtype}`, model, { python: vllmPython, hfFolder, dtype }));
    contenders.push(vllm('vLLM int8', model, { python: vllmPython, hfFolder: w8a8Folder, dtype: 'bfloat16' }));
  }
  missing.push({ name: 'transformers.js', reason: 'runs ONNX models only, and none can be made from a GGUF file without onnxruntime-genai, whose exports give wrong text for left-padded batches' });
  return { contenders, missing };
}
