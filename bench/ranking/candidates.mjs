// What an engine would be opened by, and which plans come next, in a process of its own: it plans for the memory that
// this process has.
import { loadAddon } from '../../dist/bindings/loadAddon.js';
import { repackedBytes } from '../../dist/engine/store/openWeightStore.js';
import { identifyModel } from '../../dist/model/identity/identifyModel.js';
import { planEngine } from '../../dist/engine/open/planEngine.js';
import { validateOptions } from '../../dist/engine/open/validateOptions.js';
import { readModel } from '../../dist/api/models.js';
import { choosePolicy } from '../../dist/api/plan.js';

/** The job, as bench/ranking.mjs writes it: {engine: EngineOptions, plans}. */
const job = JSON.parse(process.argv[2] ?? 'null');
if (job === null) {
  process.stderr.write('this file is started by bench/ranking.mjs\n');
  process.exit(1);
}
const requested = await validateOptions(job.engine);
const source = await readModel(job.engine.model);
const { report, request } = await planEngine(source, requested, loadAddon().machine(), job.engine.expectedRows, {
  repackedBytes: async () => repackedBytes(requested.settings.memory.disk, source, await identifyModel(source.files)),
});
if (report.origin !== 'auto') throw new Error(`nothing was planned: ${report.why}`);
const { policy, predicted, runnersUp } = choosePolicy(request, job.plans - 1);
const figures = (plan) => ({ policy: plan.policy, predicted: plan.predicted.tokensPerSecond });
process.stdout.write(
  `${JSON.stringify({ taken: figures(report), plans: [{ policy, predicted }, ...runnersUp].map(figures) })}\n`,
);
