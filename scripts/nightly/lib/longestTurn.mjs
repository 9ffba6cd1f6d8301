/*
 * Preloaded into a process (`node --import …/longestTurn.mjs`): measures the longest turn of the event loop, in
 * milliseconds of processor time of the loop's own thread, so that a busy machine or a stopped process adds nothing.
 * The turns that load the program itself are left out: no row has been read then, and none decides how long they are.
 * The file that SPILLWAY_TURNS names gets {"longestTurnMs","at"} at the end, and whenever the longest turn grows, so
 * that a process that is killed leaves its figure, too.
 */
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.SPILLWAY_TURNS;

if (file !== undefined && isMainThread) {
  // The first number: nanoseconds that the thread has run on a processor.
  const stat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
  const text = Buffer.alloc(64);
  const milliseconds = () => {
    const length = readSync(stat, text, 0, text.length, 0);
    return Number(text.toString('latin1', 0, length).split(' ')[0]) / 1e6;
  };
  const began = performance.now();
  let longest = 0;
  let at = 0;
  let before = milliseconds();
  // The command line listens for signals as soon as it is loaded.
  const isLoaded = () => process.listenerCount('SIGTERM') > 0;
  let loaded = isLoaded();
  const turn = () => {
    const now = milliseconds();
    if (loaded && now - before > longest) {
      longest = now - before;
      at = (performance.now() - began) / 1e3;
      if (longest > 50) write();
    }
    before = now;
    loaded ||= isLoaded();
  };
  const write = () => writeFileSync(file, JSON.stringify({ longestTurnMs: Math.round(longest * 10) / 10, at }) + '\n');
  const timer = setInterval(turn, 1);
  timer.unref();
  process.on('exit', () => {
    clearInterval(timer);
    turn();
    closeSync(stat);
    write();
  });
}
