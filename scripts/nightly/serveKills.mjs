// Kills a server in the middle of a batch, again and again, and holds what the batch ends with against one that nobody
// disturbed.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';
import { batchOf, batchText, outputOf, sendBatch, startServer } from './lib/servers.mjs';

const USAGE = `Kills \`spillway serve\` with SIGKILL while a batch is under way, starts it again, and compares the batch's output with an undisturbed one's.
  --kills N     so many (default 20)
  --rows N      requests of the batch (default 2000)`;

async function campaignMain(campaign) {
  needBuild();
  const model = await tinyTextModel(campaign);
  const text = batchText(campaign.number('rows'), undefined, 24);
  const flags = (data) => [
    '--model',
    model,
    '--port',
    '0',
    '--data',
    join(campaign.folder, data),
    '--threads',
    '1',
    '--policy',
    'default',
    '--batch-size',
    '8',
  ];
  const over = async (url, id) => {
    for (;;) {
      const batch = await batchOf(url, id);
      if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch;
      await sleep(50);
    }
  };
  const calm = await startServer(flags('calm'));
  const begun = performance.now();
  const whole = await over(calm.url, await sendBatch(calm.url, text));
  const seconds = (performance.now() - begun) / 1000;
  const expected = await outputOf(calm.url, whole);
  calm.child.kill('SIGTERM');
  await calm.ended;
  campaign.say(`undisturbed: ${seconds.toFixed(1)} s`);
  let kills = 0;
  while (kills < campaign.number('kills') && campaign.goesOn) {
    const data = `killed-${kills}`;
    let server = await startServer(flags(data));
    const id = await sendBatch(server.url, text);
    for (let round = 0; round < 4; round++) {
      const wait = seconds * campaign.random.next() * 0.5;
      await sleep(wait * 1000);
      const { status } = await batchOf(server.url, id);
      server.child.kill('SIGKILL');
      await server.ended;
      if (status !== 'completed') kills += 1;
      server = await startServer(flags(data));
    }
    const batch = await over(server.url, id);
    const output = await outputOf(server.url, batch);
    campaign.count('batches');
    if (batch.status !== 'completed' || output !== expected)
      campaign.violation(`the batch ended otherwise: ${JSON.stringify(batch)}`);
    server.child.kill('SIGTERM');
    const { code } = await server.ended;
    if (code !== 0) campaign.violation(`the server ended with ${code}, expected 0`);
    campaign.set('kills in mid-batch', kills);
  }
}

await runCampaign(
  {
    usage: USAGE,
    minutes: 30,
    done: 'batches',
    options: { kills: { type: 'string', default: '20' }, rows: { type: 'string', default: '2000' } },
  },
  campaignMain,
);
