// Puts answers in a process of its own: node writer.mjs REUSE FILE MAXBYTES FIRST COUNT ROUNDS
// REUSE is the built ReuseFile.js. In each round it puts COUNT answers and closes the store; then it says the number of
// the last one, all up to which are written.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const [reuse, file, ...numbers] = process.argv.slice(2);
const [maxBytes, first, count, rounds] = numbers.map(Number);
const { ReuseFile } = await import(pathToFileURL(reuse).href);

const onWarning = (message) => process.stderr.write(`${message}\n`);
const keyFor = (what) => createHash('sha256').update(JSON.stringify(what)).digest();
for (let number = first, round = 0; round < rounds; round += 1) {
  const store = await ReuseFile.open(file, { maxBytes, onWarning });
  for (const end = number + count; number < end; number += 1) {
    store.put(keyFor(number), {
      text: `answer ${number} ${'x'.repeat(1000)}`,
      tokens: [number, 2, 3],
      finishReason: number % 2 === 0 ? 'stop' : 'length',
    });
    if (number % 50 === 0) await sleep(1);
  }
  await store.close();
  process.stdout.write(`${number - 1}\n`);
}
