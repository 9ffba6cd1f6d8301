// From runs to figures: medians, ratios, how far texts agree, the share of the machine's peak.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { QUIET } from '../lib/machine.mjs';
import { agreement, median } from '../lib/statistics.mjs';

function medians({ contender, setting, tried }, runs) {
  const own = runs.filter((run) => run.contender === contender.name);
  const of = (key) => (own.every((run) => Number.isFinite(run[key])) ? median(own.map((run) => run[key])) : undefined);
  const rates = own.map((run) => run.generatedTokensPerSecond);
  return {
    name: contender.name,
    tool: contender.tool,
    version: own[0].version,
    setting,
    tried,
    synthetic: own[0].synthetic ?? false,
    runs: own.length,
    generatedTokensPerSecond: of('generatedTokensPerSecond'),
    slowest: Math.min(...rates),
    fastest: Math.max(...rates),
    promptTokensPerSecond: of('promptTokensPerSecond'),
    seconds: of('seconds'),
    loadSeconds: of('loadSeconds'),
    peakResidentBytes: of('peakResidentBytes'),
    stoppedRuns: own.filter((run) => run.stopped).length,
    disturbedRuns: own.filter((run) => (run.othersShare ?? 0) > QUIET).length,
  };
}

/**
 * Operations of the matrix products that rows need: every token that is computed goes through the layers, every
 * generated one comes from the head. Attention over the cache is not counted, so the share of the peak errs on the low
 * side. undefined for mixtures of experts.
 *
 * @param source what `readModel` gives
 */
export function matrixOperations({ decoder, tensors }, { rows, promptTokens, generatedTokens }) {
  if (decoder.feedForward.kind === 'experts') return undefined;
  const size = ({ shape }) => shape.reduce((product, extent) => product * extent, 1);
  const matrices = tensors.filter(({ shape }) => shape.length > 1);
  const isHead = ({ name }) => /^output\.weight$|^lm_head/.test(name);
  const isTable = ({ name }) => /^token_embd|embed_tokens|^position_embd/.test(name);
  const layers = matrices.filter((tensor) => !isHead(tensor) && !isTable(tensor)).reduce((sum, tensor) => sum + size(tensor), 0);
  const head = matrices.find(isHead) ?? matrices.find(isTable);
  // A row's last token is never computed, only chosen.
  return 2 * (layers * (promptTokens + generatedTokens - rows) + size(head) * generatedTokens);
}

/** The fastest of all others, on whichever weights, beside Spillway on the model's own. */
export function bestPeer(summary, ratios) {
  const rateOf = (name) => summary.find((entry) => entry.name === name).generatedTokensPerSecond;
  const [best] = [...ratios].sort((a, b) => a.ratio - b.ratio);
  return best && { ...best, generatedTokensPerSecond: rateOf(best.to) };
}

/**
 * @param {{contenders: {contender: object, setting: object, tried: object[]}[], runs: object[], source: object, peaks:
 * object[], scratch: string, reference?: number[][]}} measured
 *   `scratch`: folder with the tokens of each contender's last run; `reference`: the model's tokens of the first rows
 */
export function summarize({ contenders, runs, source, peaks, scratch, reference }) {
  const summary = contenders.map((entry) => medians(entry, runs));
  const [own] = summary.filter(({ tool }) => tool === 'spillway');
  const peers = summary.filter(({ tool }) => tool !== 'spillway');
  const ratios = own === undefined ? [] : peers.map(({ name, generatedTokensPerSecond }) => ({ of: own.name, to: name, ratio: own.generatedTokensPerSecond / generatedTokensPerSecond }));
  const tokensOf = (name) => {
    const file = join(scratch, `${name}.json`);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  };
  const model = contenders.find(({ contender }) => contender.name === own?.name)?.contender.model;
  // Texts are compared where the weights come from the same file.
  const agreements = contenders.flatMap(({ contender }) => {
    const theirs = contender.model === model ? tokensOf(contender.name) : undefined;
    const stopped = summary.find(({ name }) => name === contender.name)?.stoppedRuns > 0;
    return reference === undefined || theirs === undefined || stopped ? [] : [{ of: contender.name, ...agreement(reference, theirs) }];
  });
  const peak = { ...peaks[0], int8OperationsPerSecond: Math.max(...peaks.map(({ int8OperationsPerSecond }) => int8OperationsPerSecond)) };
  const shares = contenders.flatMap(({ contender }) => {
    const entry = summary.find(({ name }) => name === contender.name);
    const run = runs.find((each) => each.contender === contender.name);
    const operations = matrixOperations(source, run);
    if (operations === undefined || !(peak.int8OperationsPerSecond > 0)) return [];
    return [{ of: contender.name, operationsPerSecond: operations / entry.seconds, share: operations / entry.seconds / peak.int8OperationsPerSecond }];
  });
  return { summary, ratios, best: bestPeer(summary, ratios), agreements, peak, shares };
}
