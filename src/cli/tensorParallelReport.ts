import { formatBytes, type PipelinePlan, type TensorParallelPlan } from './library.js';
import { blockFlags } from './pipelineReport.js';
import { percent, rate, seconds, spendingWords } from './planReport.js';

/** Says in words what the same machines do with a share of each layer each, beside dividing the layers. */
export function describeTensorParallel(
  plan: TensorParallelPlan | { readonly refused: string },
  pipeline: Pick<PipelinePlan, 'tokensPerSecond'>,
): string {
  if ('refused' in plan) return `\ntensor parallel: not for these (${plan.refused})\n`;
  const { shares, attention, cacheBytes, tokensPerSecond, wallSeconds, waitingSeconds, sentBytes, spending } = plan;
  const rows = attention === 'rows' ? ':rows' : '';
  const times = tokensPerSecond / pipeline.tokensPerSecond;
  const verdict =
    times >= 1
      ? `${times.toFixed(2)} times the pipeline's: share each layer`
      : `${times.toFixed(2)} times the pipeline's: divide the layers`;
  return (
    `\ntensor parallel (follow --tensor-parallel K/${shares}${rows}): ${rate(tokensPerSecond)}, ${seconds(wallSeconds)}, ${verdict}\n` +
    `every engine: ${blockFlags(plan)}; ${percent(waitingSeconds / wallSeconds)} of the time waits for sums, of which each engine sends ${formatBytes(sentBytes)}; it keeps ${formatBytes(cacheBytes)} of keys and values${rows === '' ? '' : ', of its part of the rows'}\n` +
    (spending ? `it takes ${spendingWords(spending)}\n` : '')
  );
}
