// The report of scripts/verify-gpu.sh as Markdown. Pure.
import { shapeWords } from './askedRows.mjs';

const percent = (share) => (share === undefined ? '' : `${(100 * share).toFixed(1)}%`);
const number = (value, digits = 3) => (value === undefined ? '' : value.toPrecision(digits));
const tera = (operations) => (operations === undefined ? '' : number(operations / 1e12));
const gib = (bytes) => (bytes === undefined ? '' : `${(bytes / 2 ** 30).toFixed(1)} GiB`);
const cell = (text) =>
  String(text ?? '')
    .replaceAll('|', '\\|')
    .replaceAll('\n', ' ');

function table(head, rows, numbers = 0) {
  const line = (cells) => `| ${cells.map(cell).join(' | ')} |`;
  return [
    line(head),
    `|${head.map((_, index) => (index < head.length - numbers ? '-' : '-:')).join('|')}|`,
    ...rows.map(line),
  ];
}

const HOLDS = new Map([
  [true, 'yes'],
  [false, '**no**'],
  [undefined, ''],
]);

function asked(rows) {
  return [
    '## What it must show',
    '',
    ...table(
      ['', 'asked', 'measured', 'holds'],
      rows.map(({ what, asked: least, measured, holds }) => [what, least, measured, HOLDS.get(holds)]),
    ),
    '',
  ];
}

const FAILURES = 20;
function failures({ failures: names = [] }) {
  return [
    ...names.slice(0, FAILURES).map((name) => `- failed: ${name}`),
    ...(names.length > FAILURES ? [`- and ${names.length - FAILURES} more`] : []),
    ...(names.length > 0 ? [''] : []),
  ];
}

function answers(result) {
  if (result.cases === undefined) return [];
  const rows = result.cases.map(
    ({ model, precision, placement, rows: all, equal, ties = [], compared, tokens, worst, wrong = [], error }) => [
      model,
      precision,
      placement,
      error === undefined ? `${equal} of ${all}` : '',
      error === undefined ? `${compared} of ${tokens}` : '',
      ties.length === 0 ? '' : `${ties.length} (${number(Math.max(...ties.map(({ gap }) => gap)), 2)})`,
      worst === undefined ? '' : worst.toExponential(1),
      error ?? wrong.join('; '),
    ],
  );
  return [
    '## Greedy answers beside those of the processor in float32',
    '',
    'Where the two likeliest tokens are as near as rounding reaches either may come, and the rest of the row is another text.',
    '',
    ...table(
      [
        'model',
        'precision',
        'placement',
        'rows equal',
        'tokens compared',
        'near-ties (largest gap)',
        'worst log-probability',
        'wrong',
      ],
      rows,
    ),
    '',
  ];
}

function streaming({ cases = [], model, rows, promptTokens, newTokens, gpuMemory }) {
  if (cases.length === 0) return [];
  const lines = cases.flatMap(({ placement, error, overlapping, serial, memory }) => {
    if (error !== undefined) return [[placement, '', '', '', '', '', '', error]];
    const counted =
      memory === undefined
        ? 'not measured'
        : `${gib(memory.usedBytes)} of ${gib(memory.capBytes)} (${memory.counted}'s count, ${gib(memory.contextBytes)} of the context's own)`;
    return [
      ['overlapping', overlapping],
      ['serial', serial],
    ].map(([name, each]) => [
      `${placement}, ${name}`,
      number(each.tokensPerSecond),
      number(each.wallSeconds),
      number(each.linkSeconds),
      number(each.computeSeconds),
      percent(each.shareOfLink),
      percent(each.shareOfShorter),
      name === 'serial' ? '' : counted,
    ]);
  });
  return [
    '## Copies beside computing, and memory by the driver',
    '',
    `${model}, ${rows} rows of ${promptTokens} + ${newTokens} tokens under ${gpuMemory}. By the trace of each run; *serial*: one stage after another, for comparison.`,
    '',
    ...table(
      [
        'run',
        'tokens/s',
        'wall s',
        'link busy s',
        'computing s',
        "of the link's time overlapped",
        'of what can be',
        'GPU memory at most',
      ],
      lines,
    ),
    '',
  ];
}

function policyWords(policy = {}) {
  const { schedule, batches, batchSize } = policy;
  const shares = ['weights', 'cache', 'activations'].flatMap((name) =>
    policy[name] === undefined
      ? []
      : [`${name} ${['gpu', 'cpu', 'disk'].map((tier) => Math.round(100 * (policy[name][tier] ?? 0))).join('/')}`],
  );
  return [`${schedule} ${batches} x ${batchSize}`, ...shares].join(', ');
}

function speed(results) {
  const names = ['opt-6.7b', 'opt-30b'].filter((name) => results[`speed-${name}`].tokensPerSecond !== undefined);
  if (names.length === 0) return [];
  const lines = names.map((name) => {
    const { driver, ...each } = results[`speed-${name}`];
    return [
      shapeWords({ name, ...each }),
      each.rows,
      policyWords(each.policy),
      number(each.tokensPerSecond),
      number(each.predictedTokensPerSecond),
      percent(each.shareOfPredicted),
      each.bottleneck,
      number(each.prefillSeconds),
      number(each.decodeSeconds),
      driver === undefined ? '' : gib(driver.usedBytes),
      gib(each.residentPeakBytes),
    ];
  });
  const { promptTokens, newTokens, caps } = results[`speed-${names[0]}`];
  return [
    '## Speed',
    '',
    `Random 16-bit weights, ${promptTokens} + ${newTokens} tokens, ${gib(caps.gpuBytes)} of GPU memory and ${gib(caps.cpuBytes)} of the processor's, policy \`auto\`. Shares are GPU/CPU/disk; GPU memory is the driver's count, with what CUDA itself takes.`,
    '',
    ...table(
      [
        'shape',
        'rows',
        'policy',
        'tokens/s',
        'predicted',
        'share',
        'bottleneck',
        'prefill s',
        'decode s',
        'GPU memory',
        'resident',
      ],
      lines,
    ),
    '',
  ];
}

function peers(results) {
  const lines = ['opt-6.7b', 'opt-30b'].flatMap((name) => {
    const { policies = [{}], ...shape } = results[`peers-${name}`];
    return policies.map(({ policy, notMeasured = shape.notMeasured, ...each }) => [
      shapeWords({ name, ...shape }),
      policy?.name ?? '',
      policy === undefined ? '' : `${policy.batchSize} x ${policy.batches}, ${policy.percent.join(' ')}`,
      number(each.tokensPerSecond),
      number(each.prefillSeconds),
      number(each.decodeSeconds),
      gib(each.gpuPeakBytes),
      each.tokensPerSecond !== undefined ? `torch ${each.torch}` : `not measured yet: ${notMeasured}`,
    ]);
  });
  return [
    '## FlexGen, with its published policy and some others, as far as they fit',
    '',
    ...table(
      ['shape', 'policy', 'rows (wG wC cG cC hG hC)', 'tokens/s', 'prefill s', 'decode s', 'GPU memory', ''],
      lines,
    ),
    '',
  ];
}

function link({ link: found }) {
  if (found.smallCopies === undefined) return [];
  const giga = (rate) => `${(rate / 1e9).toFixed(1)} GB/s`;
  return [
    '## The link',
    '',
    `To the device ${giga(found.toDeviceBytesPerSecond)} in one copy, ${giga(found.toDeviceInPiecesBytesPerSecond)} in pieces of 4 MiB, ${giga(found.toDeviceUnpinnedBytesPerSecond)} from memory that is not pinned; from it ${giga(found.fromDeviceBytesPerSecond)}; both ways at once ${giga(found.bothWaysBytesPerSecond)} together. Pinning ${gib(found.bytes)} takes ${number(found.registerSeconds)} s.`,
    '',
    ...table(
      ['64 KiB to the device beside', 'median ms', 'most ms', 'copies'],
      found.smallCopies.map((row) => [
        row.beside,
        number(row.medianSeconds * 1e3),
        number(row.mostSeconds * 1e3),
        row.copies,
      ]),
      3,
    ),
    '',
    ...(found.pages === undefined
      ? []
      : [
          `Pages of the cache, ${(found.pages.bytes / 2 ** 20).toFixed(0)} MiB at a time by a kernel: ${giga(found.pages.bytesPerSecond)} alone, ${giga(found.pages.besideOneCopyBytesPerSecond)} beside weights in one copy (these ${giga(found.pages.weightsBesideBytesPerSecond)} meanwhile), ${giga(found.pages.besidePiecesBytesPerSecond)} beside weights that come two pieces of 4 MiB at a time.`,
          '',
        ]),
    ...(found.attention === undefined
      ? []
      : [
          `What the processor attends to, ${found.attention.rows} rows of ${found.attention.values} values: queries, keys and values down in ${number(found.attention.downSeconds * 1e3)} ms as halves by a kernel (${number(found.attention.floatsDownSeconds * 1e3)} ms as floats by the copy engine), outputs up in ${number(found.attention.upSeconds * 1e3)} ms.`,
          '',
        ]),
  ];
}

function kernels({ bench }, { products, why }) {
  if (bench.results === undefined) return [];
  const own = bench.results.filter(({ bytesPerSecond }) => bytesPerSecond !== undefined);
  return [
    '## Kernels',
    '',
    `A copy within the device's memory reaches ${(bench.copyBytesPerSecond / 1e9).toFixed(0)} GB/s (read and written).`,
    '',
    ...table(
      ['kernel', 'µs', 'GB/s', 'share of the copy'],
      own.map((row) => [
        row.name,
        (row.seconds * 1e6).toFixed(1),
        (row.bytesPerSecond / 1e9).toFixed(0),
        percent(row.shareOfBandwidth),
      ]),
      3,
    ),
    '',
    `Products of prompts, TFLOP/s, and the share of the faster of the backend's two in what cuBLASLt reaches with halves that are ready${why === undefined ? '' : ` (not measured yet: ${why})`}:`,
    '',
    ...table(
      ['product', 'own kernel', 'through cuBLASLt', 'cuBLASLt itself', 'share'],
      products.map(({ name, own, library, peak, share }) => [
        name,
        tera(own),
        tera(library),
        tera(peak),
        percent(share),
      ]),
      4,
    ),
    '',
  ];
}

/** @param report device, date, commit, asked, prefill, results */
export function reportText({ device, date, commit, asked: rows, prefill, results }) {
  const troubles = Object.entries(results).flatMap(([name, { step, notMeasured, trouble }]) =>
    step?.code > 0 || trouble ? [`- ${name}: ${trouble ?? notMeasured ?? `exit ${step.code}`}`] : [],
  );
  return (
    [
      `# The CUDA backend on ${device.name}`,
      '',
      `${date.slice(0, 10)}, compute capability ${device.computeCapability}, driver ${device.driver}, ${device.memory}; commit ${commit}.`,
      '',
      ...asked(rows),
      ...(troubles.length > 0 ? ['Steps that did not end well:', '', ...troubles, ''] : []),
      ...failures(results['kernels-ops']),
      ...failures(results['kernels-models']),
      ...answers(results['end-to-end-answers']),
      ...streaming(results['end-to-end-streaming']),
      ...speed(results),
      ...peers(results),
      ...link(results),
      ...kernels(results, prefill),
    ]
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trimEnd() + '\n'
  );
}
