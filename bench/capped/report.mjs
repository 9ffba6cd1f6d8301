// The runs of bench/capped.mjs in words.
import { machineInWords } from '../lib/machine.mjs';
import { markdownTable } from '../lib/results.mjs';

const GIB = 2 ** 30;

const rateOf = (tokens, seconds) => (tokens > 0 && seconds > 0 ? tokens / seconds : undefined);
const fixed = (value, digits) => (value === undefined ? '-' : value.toFixed(digits));

/** Rates of prefill and decode, and seconds of a step of all rows; undefined where a run did not come so far. */
export function ratesOf(run) {
  const decode = rateOf(run.decodedTokens, run.decodeSeconds);
  return {
    prefill: rateOf(run.prefilledTokens ?? run.promptTokens, run.prefillSeconds),
    decode,
    step: decode === undefined ? undefined : run.rows / decode,
  };
}

/** Lines that compare the capped run with the others. */
export function ratios(runs) {
  const own = runs.find((run) => run.tool === 'spillway' && run.capBytes !== undefined);
  if (own === undefined) return [];
  const lines = [];
  const uncapped = runs.find((run) => run.tool === 'spillway' && run.capBytes === undefined);
  if (own.generatedTokensPerSecond > 0 && uncapped?.generatedTokensPerSecond > 0 && !uncapped.stopped && !own.stopped) {
    const [capped, free] = [own, uncapped].map((run) => run.generatedTokensPerSecond);
    lines.push(
      `- ${(capped / free).toFixed(2)} times the tokens/s of ${uncapped.name} over the whole run, prompts included (${capped.toFixed(1)} and ${free.toFixed(1)})`,
    );
  }
  const mine = ratesOf(own).decode;
  for (const run of runs) {
    const { decode } = ratesOf(run);
    if (run !== own && mine !== undefined && decode !== undefined)
      lines.push(`- ${(mine / decode).toFixed(2)} times the decoding speed of ${run.name}`);
  }
  return lines.length === 0 ? [] : ['Spillway under the cap reaches', ...lines, ''];
}

export function cappedReport({ date, machine, workload, runs, missing }) {
  const measured = runs.filter(({ preparation }) => !preparation);
  const rows = measured.map((run) => {
    const { prefill, decode, step } = ratesOf(run);
    const disturbed = (run.othersShare ?? 0) > 0.02 ? `, others took ${(100 * run.othersShare).toFixed(0)}%` : '';
    const state = run.failed ?? (run.stopped ? 'cut off by its limit' : 'done');
    return [
      run.name,
      String(run.rows),
      fixed(prefill, 1),
      `**${fixed(decode, 2)}**`,
      fixed(step, 2),
      fixed(run.generatedTokensPerSecond, 1),
      run.cgroup.peakBytes === undefined ? '-' : String(Math.round(run.cgroup.peakBytes / 2 ** 20)),
      String(run.cgroup.oomKills),
      fixed(run.readBytes / GIB, 1),
      run.machineReadBytes === undefined ? '-' : fixed(run.machineReadBytes / GIB, 1),
      run.tool === 'spillway' && run.decodeSeconds > 0 ? `${(100 * run.diskBusyShare).toFixed(0)}%` : '-',
      run.diskBytesPerSecond === undefined ? '-' : fixed(run.diskBytesPerSecond / 1e9, 2),
      `${state}${disturbed}`,
    ];
  });
  const head = [
    'run',
    'rows',
    'prefill tok/s',
    'decode tok/s',
    's a step',
    'whole run tok/s',
    'cgroup peak MiB',
    'OOM kills',
    'GiB read',
    'GiB read by the machine',
    'disk busy',
    'disk GB/s before',
    'end',
  ];
  const repacking = runs.find(({ preparation }) => preparation);
  return [
    `# ${workload.model} (${(workload.modelBytes / GIB).toFixed(2)} GiB) in ${Math.round(workload.capBytes / 2 ** 20)} MiB`,
    '',
    `${date}. ${machineInWords(machine)}.`,
    `Prompts of ${workload.promptTokens} tokens, ${workload.maxNewTokens} new ones a row, at most ${workload.timeLimitSeconds} s a run. The files' pages are dropped from memory before each run. ` +
      'Decoding is counted from the end of all prompts; of a whole run the new tokens are counted, and the time of prompts too. "GiB read": by the process; "disk busy": the share of decoding during which weights were being read, from the trace; "disk GB/s before": one reader, direct, 16 MiB at a time.',
    '',
    ...markdownTable(head, rows),
    '',
    ...ratios(measured),
    ...(repacking === undefined
      ? []
      : [
          `Repacking (once, in the same cap; or opening, where it was there): ${repacking.wallSeconds.toFixed(0)} s, cgroup peak ${Math.round((repacking.cgroup.peakBytes ?? 0) / 2 ** 20)} MiB.`,
        ]),
    ...missing.map(({ name, reason }) => `Not run: ${name}: ${reason}.`),
    '',
  ].join('\n');
}
