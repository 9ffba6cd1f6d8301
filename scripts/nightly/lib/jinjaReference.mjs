import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from './commandLine.mjs';

/** What jinja2, as transformers sets it up, makes of cases (JSON): texts or errors. @param now of its clock, in seconds */
export function referenceTexts(python, now, cases) {
  return new Promise((resolve, reject) => {
    const child = execFile(
      python,
      [join(ROOT, 'scripts/nightly/lib/renderWithJinja.py')],
      { maxBuffer: 2 ** 30, env: { ...process.env, TZ: 'UTC' } },
      (error, stdout) => (error ? reject(error) : resolve(JSON.parse(stdout))),
    );
    child.stdin.end(`{"now":${now},"cases":[${cases.join(',')}]}`);
  });
}
