// Sends a server what nobody of good will sends: known kinds, mutations, bodies without end, heads without end, and
// looks that it answers with 4xx, goes on, and keeps its memory.
import { register } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';
import { percentile, residentMib, startServer } from './lib/servers.mjs';

const USAGE = `Sends hostile HTTP to \`spillway serve\` over a tiny model, without a key and with one.
  --requests N  mutated requests (default 5000)
  --mib N       most that the server's memory may grow by (default 512)`;
const KEY = 'a-key-for-the-night';
const AT_ONCE = 16;
const HELD = 100;

async function campaignMain(campaign) {
  needBuild();
  const requests = campaign.number('requests');
  const model = await tinyTextModel(campaign);
  register('../typescriptHooks.mjs', import.meta.url);
  const { answerTo, knownHostile, mutatedRequest, requestText } =
    await import('../../test/serve/support/hostileRequests.ts');
  for (const key of ['', KEY]) {
    const flags = [
      '--model',
      model,
      '--port',
      '0',
      '--data',
      join(campaign.folder, `data-${key.length}`),
      '--header-seconds',
      '3',
      '--body-seconds',
      '3',
      '--threads',
      '1',
      '--policy',
      'default',
    ];
    const server = await startServer(flags, { env: key === '' ? {} : { SPILLWAY_API_KEY: key } });
    const begun = residentMib(server.child);
    let most = begun;
    const health = [];
    const watch = setInterval(async () => {
      const at = performance.now();
      const ok = await fetch(`${server.url}/health`).then(
        (response) => response.ok,
        () => false,
      );
      health.push(performance.now() - at);
      if (!ok) campaign.violation('no answer from /health');
      if (server.child.exitCode === null) most = Math.max(most, residentMib(server.child));
    }, 250);
    const judge = (request, { status }, allowed) => {
      campaign.count('requests');
      if (status === undefined) campaign.count('without an answer (cut off)');
      else campaign.count(`status ${status}`);
      const right = allowed ? allowed.includes(status) : status === undefined || (status >= 200 && status < 500);
      if (!right)
        campaign.violation(`${request.name}: found ${status}, expected ${allowed ?? 'no error of the server’s'}`);
    };
    for (const request of knownHostile(key)) judge(request, await answerTo(server.port, request), request.statuses);
    // Clients that hold a connection with little, all the time.
    const held = Array.from({ length: HELD }, (_, at) => {
      const socket = connect(server.port, '127.0.0.1');
      socket.on('error', () => undefined);
      const whole = requestText('/v1/chat/completions', 'x'.repeat(4000), { key });
      const text = at % 2 === 0 ? 'POST / HTTP/1.1\r\nHost: localhost\r\nX: ' : whole.slice(0, -3990);
      socket.write(text);
      const drip = setInterval(() => socket.write('a'), 500);
      return new Promise((resolve) => {
        socket.on('data', () => undefined);
        socket.on('close', () => {
          clearInterval(drip);
          resolve(performance.now());
        });
      });
    });
    const dripping = performance.now();
    const drained = Promise.all(held).then((ends) =>
      campaign.set(
        `slowest of ${HELD} dripping clients given up after s`,
        ((Math.max(...ends) - dripping) / 1000).toFixed(1),
      ),
    );
    // Bodies without end.
    const endless = Promise.all(
      Array.from(
        { length: 8 },
        (_, at) =>
          new Promise((resolve) => {
            const socket = connect(server.port, '127.0.0.1');
            let sent = 0;
            socket
              .on('error', () => undefined)
              .on('data', () => undefined)
              .on('close', () => resolve(sent));
            const type = at % 2 === 0 ? 'application/json' : 'multipart/form-data; boundary=x';
            socket.write(
              `POST ${at % 2 === 0 ? '/v1/chat/completions' : '/v1/files'} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`,
            );
            const chunk = `10000\r\n${'y'.repeat(65536)}\r\n`;
            const more = () => {
              while (!socket.destroyed && sent < 2 ** 30) {
                sent += 65536;
                if (!socket.write(chunk)) return void socket.once('drain', more);
              }
              socket.destroy();
            };
            more();
          }),
      ),
    ).then((sent) => campaign.set('most MiB taken of a body without end', Math.round(Math.max(...sent) / 2 ** 20)));
    for (let done = 0; done < requests / 2 && campaign.goesOn; done += AT_ONCE) {
      const drawn = Array.from({ length: AT_ONCE }, () => mutatedRequest(campaign.random.next, key));
      const answers = await Promise.all(drawn.map((request) => answerTo(server.port, request)));
      drawn.forEach((request, at) => judge(request, answers[at]));
    }
    await Promise.all([drained, endless]);
    clearInterval(watch);
    if (server.child.exitCode !== null) campaign.violation('the server has ended', server.said.stderr);
    campaign.set(`memory MiB${key === '' ? '' : ' with a key'}`, `${begun} to ${most}`);
    campaign.set(
      `/health ms p50, p99${key === '' ? '' : ' with a key'}`,
      `${percentile(health, 0.5).toFixed(0)}, ${percentile(health, 0.99).toFixed(0)}`,
    );
    if (most - begun > campaign.number('mib')) campaign.violation(`memory grew from ${begun} to ${most} MiB`);
    if (/should not|at .*\.js:/.test(server.said.stderr))
      campaign.violation('the server says that something went wrong', server.said.stderr);
    server.child.kill('SIGTERM');
    const { code } = await server.ended;
    if (code !== 0) campaign.violation(`the server ended with ${code}, expected 0`, server.said.stderr);
  }
}

await runCampaign(
  {
    usage: USAGE,
    minutes: 30,
    done: 'requests',
    options: { requests: { type: 'string', default: '5000' }, mib: { type: 'string', default: '512' } },
  },
  campaignMain,
);
