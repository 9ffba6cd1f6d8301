// A long job with answers that last: once in full, once with some rows changed, killed at random moments, by two
// processes at once, and beside what must never get an old answer.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, run, start } from './lib/commandLine.mjs';
import { needBuild, TINY } from './lib/models.mjs';

const USAGE = `Runs \`generate --reuse\` over many tiny rows on the tests' tiny model, whose computing is next to nothing: again with one in a hundred changed, which alone may be computed;
killed with SIGKILL at random moments and begun anew, every other time two at once; by two processes at once on a file of answers that is not there yet; with other flags, another
model in the same place, kernels of other numerics, and files of answers of other versions, none of which may get an old answer; always against the output of a run without.
Then \`score\` and \`embed\`, with all their flags in one file, and killed once each.
  --rows N    (default 100000)
  --kills N   of processes that were still at work (default 20)`;

const NEW_TOKENS = 4;
const FLAGS = ['--ignore-eos'];
/** Flags with a value; what a run is told stands in their place. */
const USUAL = { '--max-new-tokens': String(NEW_TOKENS), '--logprobs': '0' };
/** One row in so many changes; this one of them. */
const [CHANGED_OF, CHANGED_AT] = [100, 42];
/** Rows of the runs that are there for what they are told. */
const FEW = 2000;
/** Only moments before the end count, so a run that is over too soon is killed sooner the next time. */
const [SOONEST_MILLISECONDS, LATEST_MILLISECONDS] = [300, 8000];

/** What decides results: with each of these nothing of the others' may be found. */
const DECIDING = [
  ['--max-new-tokens', '3'],
  ['--logprobs', '2'],
  ['--repetition-penalty', '1.3'],
  ['--temperature', '1'],
  ['--temperature', '1', '--seed', '7'],
  ['--temperature', '1', '--top-p', '0.9'],
  ['--temperature', '1', '--top-k', '5'],
  ['--temperature', '1', '--min-p', '0.1'],
  ['--precision', 'float32'],
  ['--compress-cache', '8bit'],
  ['--compress-cache', '4bit'],
  ['--compress-weights', '4bit'],
  ['--sparse-attention', '0.5'],
];
/** What does not: everything has to be found. */
const OTHER = [
  ['--threads', '1'],
  ['--batch-size', '7', '--batches', '3'],
  ['--schedule', 'row'],
  ['--share-prefixes', 'off'],
  ['--seed', '7'],
  ['--overlap', 'off'],
];

/** What decides results of the other tasks: each of these has its own in one file. */
const TASKS = {
  score: [[], ['--token-logprobs', 'on'], ['--precision', 'float32'], ['--compress-cache', '8bit']],
  embed: [
    [],
    ['--pooling', 'mean'],
    ['--pooling', 'cls'],
    ['--dimensions', '7'],
    ['--normalize', 'off'],
    ['--encoding', 'base64'],
    ['--precision', 'float32'],
  ],
};
/** Rows of theirs that are killed. */
const MOST_ASKED = 20_000;

function writeRows(file, rows, changed, asked = {}) {
  const tokens = (at) => [
    1,
    3 + (at % 250),
    3 + (Math.floor(at / 250) % 250),
    changed(at) ? 7 : 9,
    3 + (Math.floor(at / 62_500) % 250),
  ];
  writeFileSync(
    file,
    Array.from({ length: rows }, (_, at) => `${JSON.stringify({ id: at, tokens: tokens(at), ...asked })}\n`).join(''),
  );
  return file;
}

/** An addon that says that its kernels give other results. */
function writeOtherNumerics(file, addon) {
  writeFileSync(
    file,
    `const addon = require(${JSON.stringify(addon)});\nmodule.exports = { ...addon, numerics: addon.numerics + 1 };\n`,
  );
  return file;
}

/** Another model of the same size: some of its weights are others. */
function changeWeights(file) {
  const bytes = readFileSync(file);
  for (let at = Math.floor(bytes.length * 0.6); at < bytes.length; at += 997) bytes[at] ^= 1;
  writeFileSync(file, bytes);
}

await runCampaign(
  {
    usage: USAGE,
    options: { rows: { type: 'string', default: '100000' }, kills: { type: 'string', default: '20' } },
    minutes: 30,
    done: 'runs',
  },
  async (campaign) => {
    needBuild();
    const [{ addonPath }, { HEADER_BYTES, headerOf }] = [
      await import('../../dist/bindings/loadAddon.js'),
      await import('../../dist/reuse/header.js'),
    ];
    const { folder, number, random } = campaign;
    const rows = number('rows');
    const at = (name) => join(folder, name);
    const [input, changedInput] = [
      writeRows(at('in.jsonl'), rows, () => false),
      writeRows(at('changed.jsonl'), rows, (row) => row % CHANGED_OF === CHANGED_AT),
    ];
    const args = (from, output, kept, { flags = [], model = TINY, task = 'generate' } = {}) => [
      task,
      '--model',
      model,
      '--input',
      from,
      '--output',
      output,
      '--stats',
      `${output}.stats`,
      '--overwrite',
      '--policy',
      'default',
      ...(task === 'generate'
        ? [...FLAGS, ...Object.entries(USUAL).flatMap((each) => (flags.includes(each[0]) ? [] : each))]
        : []),
      ...flags,
      ...(kept ? ['--reuse', kept] : []),
    ];
    let names = 0;
    /** What rows get without a file of answers. */
    const reference = async (from, told) => {
      const output = at(`reference-${names++}.jsonl`);
      const result = await run(args(from, output, undefined, told));
      if (result.code !== 0) throw new Error(ending(result));
      const bytes = readFileSync(output);
      rmSync(output);
      return bytes;
    };
    /**
     * A run to its end, which has to say what one without the file said.
     * @returns rows that were reused, and rows that were computed, by the tokens that were sampled where some are
     */
    const check = async (what, from, expected, kept, { env, newTokens = NEW_TOKENS, ...told } = {}) => {
      const output = at(`run-${names++}.jsonl`);
      const result = await run(args(from, output, kept, told), { env });
      campaign.count('runs');
      if (result.code !== 0) {
        campaign.violation(`${what}: it failed`, ending(result));
        return { reused: NaN, computed: NaN, stderr: result.stderr };
      }
      if (readFileSync(output).equals(expected)) rmSync(output);
      else campaign.violation(`${what}: the output differs from a run without`, output);
      const {
        rows: { done },
        sharing: { rowsReused: reused, rowsEqual },
        tokens,
      } = JSON.parse(readFileSync(`${output}.stats`, 'utf8'));
      return {
        reused,
        computed: told.task ? done - reused - rowsEqual : tokens.generated / newTokens,
        stderr: result.stderr,
      };
    };
    /** What a check has to have found. */
    const demand = (what, { reused, computed }, expected) => {
      if (reused !== expected.reused || computed !== expected.computed)
        campaign.violation(
          `${what}: found ${reused} rows reused and ${computed} computed, expected ${expected.reused} and ${expected.computed}`,
        );
    };
    const all = (count) => ({ reused: count, computed: 0 });
    const nothing = (count) => ({ reused: 0, computed: count });

    const [whole, wholeChanged] = [await reference(input), await reference(changedInput)];

    const kept = at('kept');
    const changed = Math.floor((rows + CHANGED_OF - 1 - CHANGED_AT) / CHANGED_OF);
    demand('first', await check('first', input, whole, kept), nothing(rows));
    const again = await check('one in a hundred changed', changedInput, wholeChanged, kept);
    demand('one in a hundred changed', again, { reused: rows - changed, computed: changed });
    campaign.set('rows', rows);
    campaign.set('changed', changed);
    campaign.set('computed of the changed job', again.computed);
    campaign.set('MiB of answers', (statSync(kept).size / 2 ** 20).toFixed(1));

    // Two processes that begin with nothing: what each keeps the next one finds.
    const together = at('together');
    const both = await Promise.all([
      check('two at once, one', input, whole, together),
      check('two at once, the other', changedInput, wholeChanged, together),
    ]);
    campaign.set('reused by two at once', both.map(({ reused }) => reused).join(' and '));
    for (const [words, from, expected] of [
      ['behind two at once, one', input, whole],
      ['behind two at once, the other', changedInput, wholeChanged],
    ])
      demand(words, await check(words, from, expected, together), all(rows));

    await neverAnOldAnswer();
    await kills();
    await otherTasks();

    /** What each task has answered lies beside what the others have, and what a killed one has kept is right. */
    async function otherTasks() {
      const asked = { completions: [[7], [9, 8]] };
      const [few, many] = [Math.min(FEW, rows), Math.min(MOST_ASKED, rows)];
      const [some, more, store] = [
        writeRows(at('asked.jsonl'), few, () => false, asked),
        writeRows(at('asked-more.jsonl'), many, () => false, asked),
        at('tasks-kept'),
      ];
      const settings = Object.entries(TASKS).flatMap(([task, list]) => list.map((flags) => ({ task, flags })));
      const words = ({ task, flags }) => [task, ...flags].join(' ');
      const expected = new Map();
      for (const told of settings) {
        expected.set(told, await reference(some, told));
        demand(words(told), await check(words(told), some, expected.get(told), store, told), nothing(few));
      }
      for (const told of settings)
        demand(
          `${words(told)}, again`,
          await check(`${words(told)}, again`, some, expected.get(told), store, told),
          all(few),
        );
      for (const task of Object.keys(TASKS)) {
        const kept = at(`killed-${task}`);
        const { child, ended } = start(args(more, at('asked-killed.jsonl'), kept, { task }));
        await sleep(random.whole(SOONEST_MILLISECONDS, LATEST_MILLISECONDS));
        child.kill('SIGKILL');
        await ended;
        const whole = await reference(more, { task });
        const { reused, computed } = await check(`${task}, killed`, more, whole, kept, { task });
        if (reused + computed !== many)
          campaign.violation(
            `${task}, killed: found ${reused} rows reused and ${computed} computed, expected ${many} together`,
          );
        demand(
          `${task}, killed, once more`,
          await check(`${task}, killed, once more`, more, whole, kept, { task }),
          all(many),
        );
        campaign.set(`reused behind the kill of ${task}`, reused);
      }
    }

    async function neverAnOldAnswer() {
      const few = Math.min(FEW, rows);
      const [some, model, store] = [writeRows(at('few.jsonl'), few, () => false), at('model.gguf'), at('few-kept')];
      copyFileSync(TINY, model);
      const expected = await reference(some, { model });
      demand('few', await check('few', some, expected, store, { model }), nothing(few));
      for (const flags of DECIDING) {
        const what = `with ${flags.join(' ')}`;
        const own = { flags, model, ...(flags[0] === '--max-new-tokens' && { newTokens: Number(flags[1]) }) };
        demand(what, await check(what, some, await reference(some, { flags, model }), store, own), nothing(few));
      }
      const numerics = { model, env: { SPILLWAY_ADDON: writeOtherNumerics(at('addon.cjs'), addonPath()) } };
      demand(
        'kernels of other numerics',
        await check('kernels of other numerics', some, expected, store, numerics),
        nothing(few),
      );
      for (const flags of OTHER) {
        const what = `with ${flags.join(' ')}`;
        demand(what, await check(what, some, expected, store, { flags, model }), all(few));
      }
      // All of them have their own in the same file by now.
      demand(
        'kernels of other numerics, again',
        await check('kernels of other numerics, again', some, expected, store, numerics),
        all(few),
      );
      for (const version of [0, 2, 7]) {
        const other = at(`version-${version}`);
        const bytes = Buffer.concat([headerOf(version), readFileSync(store).subarray(HEADER_BYTES)]);
        writeFileSync(other, bytes);
        const result = await check(`a file of version ${version}`, some, expected, other, { model });
        demand(`a file of version ${version}`, result, nothing(few));
        if (!result.stderr.includes(`found version ${version} of a file of answers`))
          campaign.violation(`a file of version ${version}: nothing was said of it`, result.stderr);
        if (!readFileSync(other).equals(bytes))
          campaign.violation(`a file of version ${version}: it was changed`, other);
      }
      changeWeights(model);
      const another = await reference(some, { model });
      if (another.equals(expected))
        campaign.violation('another model in the same place: it answers alike, so it shows nothing');
      demand(
        'another model in the same place',
        await check('another model in the same place', some, another, store, { model }),
        nothing(few),
      );
      campaign.set('settings that must find nothing', DECIDING.length + 5);
      campaign.set('that must find all', OTHER.length);
    }

    /** At random moments, with the file of answers from nothing to all, over and over. */
    async function kills() {
      mkdirSync(at('killed'));
      const few = Math.min(FEW, rows);
      const head = (bytes) =>
        bytes.subarray(
          0,
          bytes
            .toString('latin1')
            .split('\n', few)
            .reduce((sum, line) => sum + line.length + 1, 0),
        );
      const [some, expected] = [writeRows(at('head.jsonl'), few, () => false), head(whole)];
      let [store, stores, latest, killed, late] = [at('killed/kept-0'), 1, LATEST_MILLISECONDS, 0, 0];
      for (let round = 0; killed < number('kills') && campaign.goesOn; round++) {
        const two = [input, changedInput]
          .slice(0, 1 + (round % 2))
          .map((from, which) => start(args(from, at(`killed/out-${which}.jsonl`), store)));
        const moment = random.whole(SOONEST_MILLISECONDS, latest);
        await sleep(moment);
        for (const { child } of two) child.kill('SIGKILL');
        const ended = await Promise.all(two.map((each) => each.ended));
        const inTime = ended.filter(({ signal }) => signal === 'SIGKILL').length;
        killed += inTime;
        const words = `killed after ${moment} ms`;
        for (const result of ended)
          if (result.signal !== 'SIGKILL' && result.code !== 0)
            campaign.violation(`${words}: it had failed before`, ending(result));
        // A copy, so that what the next ones find is what killed ones have kept.
        const copy = at('killed/copy');
        if (existsSync(store)) copyFileSync(store, copy);
        const { reused } = await check(`${words}, the first rows`, some, expected, copy);
        rmSync(copy);
        campaign.say(
          `${inTime} ${words}: ${existsSync(store) ? (statSync(store).size / 2 ** 20).toFixed(1) : 0} MiB of answers, ${reused} of the first ${few} rows reused`,
        );
        if (inTime > 0) continue;
        // All was kept before the kill came: to its end, and from nothing again.
        late++;
        latest = Math.max(1000, Math.floor(latest * 0.8));
        await finish();
        store = at(`killed/kept-${stores++}`);
      }
      campaign.set('killed', killed);
      campaign.set('killed too late', late);
      await finish();
      if (killed > 0 && campaign.figure('reused behind the kills') === 0)
        campaign.violation('behind the kills: nothing was kept');

      async function finish() {
        const { reused, computed } = await check('behind the kills', input, whole, store);
        campaign.count('reused behind the kills', reused);
        if (reused + computed !== rows)
          campaign.violation(
            `behind the kills: found ${reused} rows reused and ${computed} computed, expected ${rows} together`,
          );
        demand(
          'behind the kills, once more',
          await check('behind the kills, once more', input, whole, store),
          all(rows),
        );
      }
    }
  },
);
