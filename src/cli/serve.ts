import { basename, join } from 'node:path';
import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { requireFlags } from './flags/commandFlags.js';
import {
  addCompressionFlags,
  addMachineFlags,
  addPlanFlags,
  engineOptions,
  type EngineFlags,
  type PlanFlags,
  planOptions,
} from './flags/engineFlags.js';
import { addLogFlag } from './flags/logFlags.js';
import { addServedPromptFlags, promptOptions, type PromptFlags } from './flags/promptFlags.js';
import { addSamplingFlags, samplingOptions, type SamplingFlags } from './flags/samplingFlags.js';
import { addLimitFlags, addServeFlags, apiKeyOf, serveLimits, type ServeFlags } from './flags/serveFlags.js';
import {
  Engine,
  isModelName,
  readModel,
  serve,
  userDataFolder,
  type EngineOptions,
  type ServedModel,
} from './library.js';
import { planFacts } from './jobWatch.js';
import { pulledModel, showOpening, showPlanning } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';

type Flags = ServeFlags & Omit<EngineFlags, 'model'> & PlanFlags & SamplingFlags & PromptFlags;

const EXAMPLES = `
Examples:
  spillway serve --model smollm2-135m-instruct
  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model":"smollm2-135m-instruct","messages":[{"role":"user","content":"Hello"}]}'
  spillway serve --model chat.gguf --model ./ms-marco-MiniLM-L6-v2 \\
    --host 0.0.0.0 --api-key-file key.txt --data /var/lib/spillway`;

export function addServe(program: Command, context: CommandContext): void {
  const command = program
    .command('serve')
    .description(
      "Serves models over HTTP as OpenAI's API has it: chats, completions, embeddings, files and batches, and reranking, until it is stopped. Prints where it listens as a line of JSON. Batches that are not through then go on with the next server of the same --data.",
    );
  addServeFlags(command);
  addLogFlag(command);
  addSamplingFlags(command, true);
  addServedPromptFlags(command);
  addMachineFlags(command);
  addCompressionFlags(command, true);
  addPlanFlags(command);
  addLimitFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action((flags: Flags) => runServer(flags, context));
}

async function runServer(flags: Flags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model');
  const { signal } = context;
  const { host, port, data = join(userDataFolder(), 'serve'), allowHost, allowOrigin, modelsInMemory } = flags;
  const apiKey = await apiKeyOf(flags, process.env, signal);
  const planned = await planOptions(flags);
  const told = { ...samplingOptions(flags), ...(await promptOptions(flags, signal)) };
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    const models = await servedModels(flags, planned, meter, context);
    await using server = await serve({
      models,
      host,
      port,
      data,
      ...(apiKey !== undefined && { apiKey }),
      ...(allowHost && { allowedHosts: allowHost }),
      ...(allowOrigin && { allowedOrigins: allowOrigin }),
      ...(modelsInMemory !== undefined && { modelsInMemory }),
      ...serveLimits(flags),
      generate: told,
      onMessage: (message) => context.say(message),
      signal,
    });
    meter.stop();
    context.say(`files and batches are in ${data}; what it does is shown at ${server.url}/`);
    await context.print(`${JSON.stringify({ url: server.url })}\n`);
    await server.closed;
  } finally {
    meter.stop();
  }
}

/** The models that the flags name, all of which are here by then. @throws as `Engine.check` and `resolveModel` */
async function servedModels(
  flags: Flags,
  planned: Partial<EngineOptions>,
  meter: ProgressMeter,
  context: CommandContext,
): Promise<readonly ServedModel[]> {
  const { model: given = [], ...others } = flags;
  const optionsOf = (model: string): EngineOptions => ({ ...planned, ...engineOptions({ ...others, model }, model) });
  for (const model of given) await Engine.check(optionsOf(model));
  const names = namesOf(given);
  const models: ServedModel[] = [];
  for (const [at, model] of given.entries()) {
    const path = await pulledModel(model, context.signal, meter);
    await readModel(path);
    const name = names[at] ?? model;
    models.push({
      name,
      ...(name !== model && { aliases: [model] }),
      open: async (signal) => {
        const engine = await Engine.open({
          ...optionsOf(path),
          signal,
          ...showPlanning(meter, context),
          ...showOpening(meter, context),
        });
        meter.stop();
        return Object.assign(engine, { planFacts: () => planFacts(engine.plan) });
      },
    });
  }
  return models;
}

/** Gives the names of models: as they were given, and of a path its last part, where that is one model's alone. */
function namesOf(given: readonly string[]): readonly string[] {
  const short = given.map((model) => (isModelName(model) ? model : basename(model).replace(/\.gguf$/i, '')));
  return given.map((model, at) => {
    const name = short[at] ?? model;
    return name === '' || short.filter((other) => other === name).length > 1 ? model : name;
  });
}
