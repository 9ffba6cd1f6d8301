import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const CONFIG = resolve('.dependency-cruiser.cjs');
const CRUISER = resolve('node_modules/dependency-cruiser/bin/dependency-cruise.mjs');

/** A tree in which every layer is used the right way. */
const ALLOWED: Readonly<Record<string, string>> = {
  'src/units.ts': "import { UsageError } from './errors/UsageError.js';\nexport const units = UsageError;\n",
  'src/errors/UsageError.ts': 'export class UsageError extends Error {}\n',
  'src/Row.ts': 'export interface Row { readonly prompt: string }\n',
  'src/model/readModel.ts': "import { open } from 'node:fs/promises';\nexport const readModel = open;\n",
  'src/bindings/Addon.ts':
    "import type { readModel } from '../model/readModel.js';\nexport type Addon = typeof readModel;\n",
  'src/engine/schedules/zigZag.ts':
    "import { UsageError } from '../../errors/UsageError.js';\nexport const zigZag = UsageError;\n",
  'src/engine/grid/Device.ts': "import type { Addon } from '../../bindings/Addon.js';\nexport type Device = Addon;\n",
  'src/engine/memory/PagePool.ts': "import type { Device } from '../grid/Device.js';\nexport type Pool = Device;\n",
  'src/engine/execution/Run.ts': "import type { Pool } from '../memory/PagePool.js';\nexport type Run = Pool;\n",
  'src/operators/compute.ts':
    "import type { Device } from '../engine/grid/Device.js';\nexport type Compute = Device;\n",
  'src/aiSdk/Engines.ts': "import { UsageError } from '../errors/UsageError.js';\nexport const Engines = UsageError;\n",
  'src/jobs/input/readRows.ts': "import type { Row } from '../../Row.js';\nexport type Rows = readonly Row[];\n",
  'src/Engine.ts':
    "export * from './operators/compute.js';\nexport * from './engine/schedules/zigZag.js';\nexport * from './bindings/Addon.js';\n",
  'src/index.ts': "export * from './Engine.js';\n",
  'src/api/jobs.ts': "export * from '../jobs/input/readRows.js';\n",
  'src/files/atomicFile.ts': "import { open } from 'node:fs/promises';\nexport const atomicFile = open;\n",
  'src/cli/library.ts':
    "export * from '../index.js';\nexport * from '../api/jobs.js';\nexport * from '../files/atomicFile.js';\n",
  'src/cli/main.ts': "import * as library from './library.js';\nconsole.log(library);\n",
};

/** One file that breaks one rule: its path, its import, the rule. */
const BROKEN: readonly (readonly [string, string, string])[] = [
  ['src/engine/schedules/a.ts', 'node:fs', 'pure-folders-import-no-node'],
  ['src/plan/b.ts', 'os', 'pure-folders-import-no-node'],
  ['src/plan/c.ts', '../bindings/Addon.js', 'pure-folders-import-no-effects'],
  ['src/engine/schedules/d.ts', '../execution/Run.js', 'pure-folders-import-no-effects'],
  ['src/errors/e.ts', '../Row.js', 'errors-and-units-are-leaves'],
  ['src/model/f.ts', '../bindings/Addon.js', 'model-stands-alone'],
  ['src/model/g.ts', '../engine/schedules/zigZag.js', 'model-stands-alone'],
  ['src/bindings/h.ts', '../engine/grid/Device.js', 'bindings-stand-alone'],
  ['src/engine/grid/x.ts', '../memory/PagePool.js', 'grid-is-the-ground-floor'],
  ['src/engine/memory/y.ts', '../execution/Run.js', 'memory-below-execution'],
  ['src/engine/peers/z.ts', '../execution/Run.js', 'peers-below-execution'],
  ['src/engine/execution/i.ts', '../../operators/compute.js', 'engine-below-operators'],
  ['src/engine/execution/j.ts', '../../Engine.js', 'engine-below-operators'],
  ['src/operators/k.ts', '../Engine.js', 'operators-below-engine-class'],
  ['src/operators/l.ts', '../bindings/Addon.js', 'operators-do-not-touch-the-addon'],
  ['src/jobs/m.ts', '../engine/grid/Device.js', 'jobs-know-rows-not-engines'],
  ['src/jobs/n.ts', '../Engine.js', 'jobs-know-rows-not-engines'],
  ['src/jobs/formats/x.ts', '../input/readRows.js', 'formats-know-no-jobs'],
  ['src/files/y.ts', '../Row.js', 'files-stand-alone'],
  ['src/rows/u.ts', '../jobs/input/readRows.js', 'rows-stand-alone'],
  ['src/aiSdk/a.ts', '../engine/grid/Device.js', 'ai-sdk-stands-above'],
  ['src/model/ba.ts', '../aiSdk/Engines.js', 'nothing-below-knows-the-ai-sdk'],
  ['src/telemetry/a.ts', '../Row.js', 'telemetry-is-a-leaf'],
  ['src/reuse/w.ts', '../jobs/input/readRows.js', 'kept-answers-stand-alone'],
  ['src/cli/o.ts', '../Engine.js', 'cli-uses-the-public-interface'],
  ['src/cli/p.ts', '../jobs/input/readRows.js', 'cli-uses-the-public-interface'],
  ['src/cli/library.ts', '../jobs/input/readRows.js', 'cli-has-what-users-have'],
  ['src/model/q.ts', '../cli/main.js', 'nothing-imports-cli'],
  ['src/jobs/r.ts', '../index.js', 'nothing-imports-index'],
  ['src/model/s.ts', './absent.js', 'resolvable'],
];

interface Violation {
  readonly from: string;
  readonly rule: { readonly name: string };
}

describe('the direction of imports', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'spillway-direction-'));
    await write('package.json', '{ "type": "module" }\n');
    await write(
      'tsconfig.json',
      '{ "compilerOptions": { "module": "nodenext", "verbatimModuleSyntax": true }, "include": ["src"] }\n',
    );
    for (const [file, text] of Object.entries(ALLOWED)) await write(file, text);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), text);
  }

  /** Runs the check as `npm run lint` does. */
  function cruise(): Promise<{ code: number; violations: readonly Violation[] }> {
    return new Promise((done, fail) => {
      execFile(
        process.execPath,
        [CRUISER, '--config', CONFIG, '--output-type', 'json', 'src'],
        { cwd: folder, maxBuffer: 1 << 26 },
        (error, stdout, stderr) => {
          try {
            const { summary } = JSON.parse(stdout) as { summary: { violations: readonly Violation[] } };
            done({ code: Number(error?.code ?? 0), violations: summary.violations });
          } catch {
            fail(new Error(`dependency-cruiser printed no JSON: ${stderr}`));
          }
        },
      );
    });
  }

  test('is kept by a tree that keeps it, and each planted violation is found under its name', async () => {
    const clean = await cruise();
    expect(clean.violations.map(({ from, rule }) => `${from} ${rule.name}`)).toEqual([]);

    for (const [file, target] of BROKEN)
      await write(file, `import type * as x from '${target}';\nexport type X = typeof x;\n`);
    await write('src/model/t.ts', "export type * from './t2.js';\n");
    await write('src/model/t2.ts', "export type * from './t.js';\n");
    const { violations } = await cruise();
    const found = new Set(violations.map(({ from, rule }) => `${from} ${rule.name}`));
    expect(BROKEN.filter(([file, , rule]) => !found.has(`${file} ${rule}`))).toEqual([]);
    // A cycle is reported once, from any of its files.
    expect([...found].filter((violation) => violation.endsWith('no-cycles'))).toEqual([
      expect.stringMatching(/^src\/model\/t2?\.ts /),
    ]);
  });

  test('makes the check of the lint script fail', async () => {
    await write('src/model/u.ts', "import '../bindings/Addon.js';\n");
    const result = await new Promise<number>((done) => {
      execFile(process.execPath, [CRUISER, '--config', CONFIG, 'src'], { cwd: folder }, (error) => {
        done(Number(error?.code ?? 0));
      });
    });
    expect(result).toBeGreaterThan(0);
  });
});
