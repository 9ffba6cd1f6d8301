// Asks a server for /health again and again, in a process of its own, which nothing else holds up, and prints how long
// each answer took, in milliseconds, as JSON, when standard input ends: `healthProbe.mjs URL MILLISECONDS`.
import { Agent, get } from 'node:http';

const [url, pause] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const times = [];
let failed = 0;
let ended = false;
process.stdin.resume().on('end', () => (ended = true));
while (!ended) {
  const begun = performance.now();
  const ok = await new Promise((resolve) => {
    get(`${url}/health`, { agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode === 200));
    }).on('error', () => resolve(false));
  });
  times.push(performance.now() - begun);
  if (!ok) failed += 1;
  await new Promise((resolve) => setTimeout(resolve, Number(pause)));
}
agent.destroy();
process.stdout.write(`${JSON.stringify({ times, failed })}\n`);
