import { formatBytes, type PipelinePlan, type PromptsPlan } from './library.js';
import { blockFlags } from './pipelineReport.js';
import { rate, seconds, spendingWords } from './planReport.js';

/** Says in words what two machines do of which one computes prompts, beside dividing the layers and the rows. */
export function describePrompts(
  plan: PromptsPlan | { readonly refused: string },
  pipeline: Pick<PipelinePlan, 'tokensPerSecond'>,
): string {
  if ('refused' in plan) return `\nprompts apart: not for these (${plan.refused})\n`;
  const { generates, prompts, tokensPerSecond, wallSeconds, bytesPerPrompt, bottleneck, spending } = plan;
  const ways = [
    ['alone', plan.aloneTokensPerSecond],
    ['the layers divided', pipeline.tokensPerSecond],
    ['the rows divided (--shard)', plan.shardsTokensPerSecond],
  ] as const;
  const times = ways.map(([what, other]) => `${(tokensPerSecond / other).toFixed(2)} times ${what}`);
  const pays = ways.every(([, other]) => tokensPerSecond >= other);
  return (
    `\nprompts apart (follow --prompts on ${prompts.machine}): ${rate(tokensPerSecond)}, ${seconds(wallSeconds)}; ${times.join(', ')}: ${pays ? 'it pays' : 'it does not pay'}\n` +
    `${generates.machine}: ${blockFlags(generates)}; ${prompts.machine}: ${blockFlags(prompts)}; ${formatBytes(bytesPerPrompt)} a prompt cross the link; the time is spent on: ${bottleneck}\n` +
    (spending ? `it takes ${spendingWords(spending)}\n` : '')
  );
}
