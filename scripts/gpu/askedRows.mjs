// What is asked of the CUDA backend on a GPU, each beside what was measured. Pure.

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const times = (ratio) => `${ratio.toFixed(2)} times`;
const rate = (value) => value.toPrecision(3);
const NAMES = { 'opt-6.7b': 'OPT-6.7B', 'opt-30b': 'OPT-30B' };

/** A row: `holds` is undefined where nothing was measured. */
function row(what, asked, measured, holds) {
  return { what, asked, measured, ...(holds !== undefined && { holds }) };
}

const missing = (what, asked, { notMeasured, trouble }) =>
  row(what, asked, `not measured yet (${notMeasured ?? trouble})`);

function tests(what, result) {
  if (result.notMeasured !== undefined) return missing(what, 'all pass', result);
  return row(
    what,
    'all pass',
    `${result.passed} passed, ${result.failed} failed`,
    result.failed === 0 && result.passed > 0 && result.step?.code === 0,
  );
}

function sanitizer(results) {
  const tools = ['memcheck', 'racecheck', 'synccheck'].map((tool) => ({ tool, ...results[`sanitizer-${tool}`] }));
  const words = tools.map(
    ({ tool, clean, parts, of, testsFailed, notMeasured }) =>
      `${tool} ${clean === undefined ? `not measured yet (${notMeasured})` : `${clean ? 'clean' : 'found errors'}${parts === of ? '' : ` after ${parts} of ${of} parts of the tests`}${testsFailed ? ', tests failed' : ''}`}`,
  );
  const known = tools.filter(({ clean }) => clean !== undefined);
  return row(
    'compute-sanitizer',
    'clean',
    words.join(', '),
    known.some(({ clean, testsFailed }) => !clean || testsFailed) ? false : known.length === tools.length || undefined,
  );
}

function answers(result) {
  const what = "greedy ids equal to the processor's";
  if (result.notMeasured !== undefined) return missing(what, 'all but near-ties', result);
  const sum = (pick) => result.cases.reduce((total, each) => total + (pick(each) ?? 0), 0);
  const gaps = result.cases.flatMap(({ ties = [] }) => ties.map(({ gap }) => gap));
  const near =
    gaps.length === 0
      ? ''
      : `; ${gaps.length} part at a near-tie, of ${Math.max(...gaps).toPrecision(2)} in log-probability at most`;
  const words = `${sum(({ equal }) => equal)} of ${sum(({ rows }) => rows)} rows token by token${near}; ${result.cases.filter(({ ok }) => ok).length} of ${result.cases.length} cases agree${result.unfinished ? ` (${result.trouble})` : ''}`;
  return row(what, 'all but near-ties', words, result.ok);
}

function memory(results) {
  const what = "memory by the driver's count, never above the cap";
  const { cases = [], noDriver, ...result } = results['end-to-end-streaming'];
  const counted = cases.flatMap(({ memory: each }) => each ?? []);
  if (counted.length === 0)
    return missing(what, 'cap', {
      notMeasured:
        noDriver ?? result.notMeasured ?? cases.find(({ error }) => error !== undefined)?.error ?? result.trouble,
    });
  const most = counted.reduce((a, b) => (a.usedBytes / a.capBytes > b.usedBytes / b.capBytes ? a : b));
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  return row(
    what,
    mib(most.capBytes),
    `${mib(most.usedBytes)} above the context's own ${mib(most.contextBytes)}, in ${most.samples} samples`,
    counted.every(({ within }) => within),
  );
}

function overlap(result) {
  const what = 'copies overlapped with computing in the trace';
  const cases = (result.cases ?? []).filter(({ overlapping }) => overlapping?.shareOfLink !== undefined);
  if (cases.length === 0)
    return missing(what, 'yes', {
      notMeasured:
        result.notMeasured ??
        (result.cases ?? []).find(({ error }) => error !== undefined)?.error ??
        'nothing crossed the link',
    });
  const words = cases.map(
    ({ placement, overlapping, serial }) =>
      `${placement}: ${percent(overlapping.shareOfLink)} of the link's time, ${percent(overlapping.shareOfShorter)} of what can be` +
      (serial?.shareOfLink === undefined ? '' : ` (${percent(serial.shareOfLink)} when nothing shall overlap)`),
  );
  return row(
    what,
    'yes',
    words.join('; '),
    cases.every(({ overlapping, serial }) => overlapping.shareOfShorter > (serial?.shareOfShorter ?? 0)),
  );
}

/** What small copies wait decides whether weights' copies and computing overlap, or queue after one another. */
function link(result) {
  const what = "a small copy's wait beside the weights'";
  const wait = (beside) => result.smallCopies?.find((each) => each.beside === beside)?.medianSeconds;
  const [kernel, engine] = [wait('one copy of all, by a kernel'), wait('one copy of all')];
  if (kernel === undefined) return missing(what, '1 ms', { notMeasured: result.notMeasured ?? 'no such row' });
  const milliseconds = (seconds) => `${(seconds * 1e3).toPrecision(3)} ms`;
  return row(
    what,
    '1 ms',
    `${milliseconds(kernel)} by a kernel (${milliseconds(engine)} by the copy engine); ${(result.toDeviceBytesPerSecond / 1e9).toFixed(1)} GB/s to the device, ${(result.fromDeviceBytesPerSecond / 1e9).toFixed(1)} from it`,
    result.pinned && kernel <= 1e-3,
  );
}

/** Of a shape that was cut the words say so. */
export function shapeWords({ name, layers, layersOfModel = layers, standIn = false }) {
  return `${standIn ? 'a tiny stand-in for ' : ''}${NAMES[name] ?? name}${layers === layersOfModel ? '' : `'s shape with ${layers} of its ${layersOfModel} layers`}`;
}

function roofline(name, speed) {
  const what = `${shapeWords({ name, ...speed })}: tokens/s as share of the plan's roofline`;
  if (speed.shareOfPredicted === undefined)
    return missing(what, '80%', { notMeasured: speed.notMeasured ?? speed.why ?? 'nothing was predicted' });
  return row(
    what,
    '80%',
    `${percent(speed.shareOfPredicted)} (${rate(speed.tokensPerSecond)} of ${rate(speed.predictedTokensPerSecond)})${speed.stopped === undefined ? '' : `, stopped by ${speed.stopped}`}`,
    speed.shareOfPredicted >= 0.8,
  );
}

function peer(name, speed, flexgen) {
  const what = `${shapeWords({ name, ...speed })}: Spillway beside FlexGen`;
  if (speed.tokensPerSecond === undefined) return missing(what, '2 times', speed);
  if (flexgen.tokensPerSecond === undefined) return missing(what, '2 times', flexgen);
  if (speed.layers !== flexgen.layers)
    return missing(what, '2 times', {
      notMeasured: `FlexGen was measured with ${flexgen.layers} layers, Spillway with ${speed.layers}`,
    });
  const ratio = speed.tokensPerSecond / flexgen.tokensPerSecond;
  return row(
    what,
    '2 times',
    `${times(ratio)} (${rate(speed.tokensPerSecond)} and ${rate(flexgen.tokensPerSecond)} tokens/s)`,
    ratio >= 2,
  );
}

/** The least share of some of the benchmark's rows, and whose it is. */
function kernel(what, bench, rows, why = 'the benchmark has no such row') {
  if (bench.notMeasured !== undefined) return missing(what, '70%', bench);
  const known = rows.filter(({ share }) => share > 0);
  if (known.length === 0) return missing(what, '70%', { notMeasured: why });
  const [least, most] = [
    known.reduce((a, b) => (a.share < b.share ? a : b)),
    known.reduce((a, b) => (a.share > b.share ? a : b)),
  ];
  return row(
    what,
    '70%',
    `${percent(least.share)} (${least.name})${least === most ? '' : ` to ${percent(most.share)} (${most.name})`}`,
    least.share >= 0.7,
  );
}

/** @param prefill of `prefillProducts` @returns {what, asked, measured, holds?}[] */
export function askedRows(results, { products, why }) {
  const { bench } = results;
  const shares = (pattern) =>
    (bench.results ?? [])
      .filter(({ name }) => pattern.test(name))
      .map(({ name, shareOfBandwidth }) => ({ name, share: shareOfBandwidth }));
  const speeds = Object.keys(NAMES).map((name) => [name, results[`speed-${name}`], results[`peers-${name}`]]);
  return [
    link(results.link),
    tests('kernel tests on the device', results['kernels-ops']),
    tests('models on the device, against the processor and the reference', results['kernels-models']),
    sanitizer(results),
    answers(results['end-to-end-answers']),
    memory(results),
    overlap(results['end-to-end-streaming']),
    ...speeds.map(([name, speed]) => roofline(name, speed)),
    ...speeds.map(([name, speed, flexgen]) => peer(name, speed, flexgen)),
    kernel('decode attention as share of memory bandwidth', bench, shares(/^decode attention/)),
    kernel(
      'fused 4-bit product of few rows as share of memory bandwidth',
      bench,
      shares(/^multiply Q4_\S+ .*rows (1|16)$/),
    ),
    kernel("prefill product as share of cuBLASLt's peak", bench, products, why),
  ];
}
