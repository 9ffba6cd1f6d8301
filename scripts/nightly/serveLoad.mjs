// Streaming clients beside a batch: nothing is lost or doubled, memory stays, /health answers, and how long a first
// token takes.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { needBuild, realModel } from './lib/models.mjs';
import {
  batchOf,
  batchText,
  outputOf,
  percentile,
  probeHealth,
  residentMib,
  sendBatch,
  startServer,
} from './lib/servers.mjs';

const USAGE = `Lets clients stream answers from a server, one after another each, while a batch runs; over a stub, or the small real model with --real.
  --clients N   that stream at once (default 200)
  --rows N      requests of the batch (default 10000)
  --tokens N    of each answer (default 16)
  --seconds N   how long clients go on (default 600)
  --milliseconds N  that a token of the stub takes (default 100)
  --health N    most milliseconds of /health, p99 (default 100)
  --share N     least percent of the job alone that all make together (default 90)
  --mib N       most MiB by which the last third of the time may have more resident than the first (default 256)
  --real        SmolLM2 in the place of the stub`;

async function streamed(url, model, tokens, name, figures, campaign) {
  const begun = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      stream: true,
      max_tokens: tokens,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: name }],
    }),
  });
  if (response.status === 429) {
    campaign.count('refused with 429');
    await response.text();
    await sleep(1000);
    return;
  }
  let [text, first, usage, ends] = ['', undefined, undefined, 0];
  let rest = '';
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    rest += part;
    for (let at = rest.indexOf('\n\n'); at >= 0; at = rest.indexOf('\n\n')) {
      const event = rest.slice(0, at);
      rest = rest.slice(at + 2);
      if (!event.startsWith('data: ')) continue;
      if (event === 'data: [DONE]') {
        ends += 1;
        continue;
      }
      const chunk = JSON.parse(event.slice(6));
      const piece = chunk.choices?.[0]?.delta?.content ?? '';
      if (piece !== '' && first === undefined) first = performance.now() - begun;
      text += piece;
      usage ??= chunk.usage ?? undefined;
    }
  }
  campaign.count('streams');
  if (ends !== 1 || usage === undefined)
    campaign.violation(
      `a stream of ${name} has ${ends} ends and ${usage ? 'a' : 'no'} usage (${response.status})`,
      rest,
    );
  const before = figures.texts.get(name);
  if (before !== undefined && before !== text) campaign.violation(`${name}: found ${text}, expected ${before}`);
  figures.texts.set(name, text);
  figures.tokens += usage?.completion_tokens ?? 0;
  if (first !== undefined) figures.first.push(first);
}

async function campaignMain(campaign) {
  needBuild();
  const [clients, rows, tokens, seconds] = ['clients', 'rows', 'tokens', 'seconds'].map((name) =>
    campaign.number(name),
  );
  const real = campaign.values.real ? await realModel(campaign) : undefined;
  const model = real === undefined ? 'stub' : undefined;
  const data = join(campaign.folder, 'data');
  const start = (name) =>
    real === undefined
      ? startServer(
          [`${data}-${name}`, JSON.stringify({ places: 64, tokenMilliseconds: campaign.number('milliseconds') })],
          { stub: true },
        )
      : startServer(['--model', real, '--port', '0', '--data', `${data}-${name}`]);
  const text = batchText(rows, model, tokens);
  const over = async (server, id, note = () => undefined) => {
    for (;;) {
      const batch = await batchOf(server.url, id);
      note(batch);
      if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch;
      await sleep(250);
    }
  };
  // The job alone: so many tokens a second.
  const alone = await start('alone');
  const few = Math.min(rows, Math.max(200, Math.round(rows / 10)));
  const aloneBegun = performance.now();
  await over(alone, await sendBatch(alone.url, text.split('\n').slice(0, few).join('\n') + '\n'));
  const aloneRate = (few * tokens * 1000) / (performance.now() - aloneBegun);
  alone.child.kill('SIGTERM');
  await alone.ended;
  campaign.set('tokens/s of the job alone', aloneRate.toFixed(0));

  const server = await start('load');
  const id = await sendBatch(server.url, text);
  const figures = { texts: new Map(), first: [], tokens: 0 };
  const memory = [];
  const probed = probeHealth(server.url);
  const begun = performance.now();
  const end = begun + seconds * 1000;
  const goesOn = () => performance.now() < end && campaign.goesOn;
  const watch = (async () => {
    while (goesOn()) {
      memory.push(residentMib(server.child));
      await sleep(200);
    }
  })();
  let batch;
  const streams = Array.from({ length: clients }, async (_, client) => {
    for (let at = 0; goesOn(); at++)
      await streamed(server.url, model, tokens, `Client ${client}, question ${at % 20}.`, figures, campaign);
  });
  await Promise.all([watch, ...streams]);
  const measured = (performance.now() - begun) / 1000;
  const { times: health, failed } = await probed();
  if (failed > 0) campaign.violation(`/health gave no answer ${failed} times`);
  batch = await batchOf(server.url, id);
  const total = (figures.tokens + batch.request_counts.completed * tokens) / measured;
  const held = (name, value, isHeld, asked) => {
    process.stdout.write(`${isHeld ? 'pass' : 'FAIL'}  ${name}: ${value} (asked: ${asked})\n`);
    campaign.set(name, value);
    if (!isHeld) campaign.violation(`${name}: found ${value}, expected ${asked}`);
  };
  campaign.set('tokens/s in all', total.toFixed(0));
  const share = (100 * total) / aloneRate;
  const least = campaign.number('share');
  held('share of the job alone', `${share.toFixed(0)}%`, share >= least, `at least ${least}%`);
  campaign.set(
    'first token ms p50, p99',
    `${percentile(figures.first, 0.5).toFixed(0)}, ${percentile(figures.first, 0.99).toFixed(0)}`,
  );
  const mostHealth = campaign.number('health');
  held(
    '/health ms p50, p99',
    `${percentile(health, 0.5).toFixed(1)}, ${percentile(health, 0.99).toFixed(1)}`,
    percentile(health, 0.99) < mostHealth,
    `p99 below ${mostHealth}`,
  );
  const third = Math.floor(memory.length / 3);
  const [early, late] = [memory.slice(0, third), memory.slice(-third)].map((part) => Math.max(...part));
  held(
    'memory MiB, first third, last third, most',
    `${early}, ${late}, ${Math.max(...memory)}`,
    late - early <= campaign.number('mib'),
    `at most ${campaign.number('mib')} more in the last third`,
  );
  campaign.set('rows of the batch by the end of the streams', batch.request_counts.completed);
  // Requests fill all places, and the batch comes forward nevertheless.
  if (seconds >= 30 && batch.request_counts.completed === 0) campaign.violation('the batch got nothing');
  batch = await over(server, id);
  const lines = (await outputOf(server.url, batch))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line).custom_id);
  const inOrder = lines.every((name, at) => name === `r${at}`);
  held('answers of the batch', lines.length, lines.length === rows && inOrder, `${rows}, each once and in order`);
  server.child.kill('SIGTERM');
  const { code } = await server.ended;
  if (code !== 0) campaign.violation(`the server ended with ${code}, expected 0`, server.said.stderr);
}

await runCampaign(
  {
    usage: USAGE,
    minutes: 60,
    done: 'streams',
    options: {
      clients: { type: 'string', default: '200' },
      rows: { type: 'string', default: '10000' },
      tokens: { type: 'string', default: '16' },
      seconds: { type: 'string', default: '600' },
      milliseconds: { type: 'string', default: '100' },
      health: { type: 'string', default: '100' },
      share: { type: 'string', default: '90' },
      mib: { type: 'string', default: '256' },
      real: { type: 'boolean', default: false },
    },
  },
  campaignMain,
);
