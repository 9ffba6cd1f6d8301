import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { built } from '../jobs/support/built.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { TINY_MODEL } from '../cli/support.js';

const path = temporaryFolder();
const example = (name: string): string => fileURLToPath(new URL(`../../examples/cluster/${name}`, import.meta.url));

interface Job {
  readonly spec: {
    completions?: number;
    completionMode?: string;
    readonly template: {
      readonly spec: {
        readonly containers: readonly { readonly command: string[]; readonly args: readonly string[] }[];
      };
    };
  };
}

/** Runs a script in which `spillway` is another program. */
function run(
  script: readonly string[],
  spillway: string,
  variables: Readonly<Record<string, string>>,
): ReturnType<typeof spawnSync> {
  writeFileSync(path('spillway'), `#!/bin/sh\n${spillway}\n`);
  chmodSync(path('spillway'), 0o755);
  const [program = '', ...args] = script;
  const environment = { ...process.env, PATH: `${path('')}:${process.env['PATH'] ?? ''}`, ...variables };
  return spawnSync(program, args, { env: environment, encoding: 'utf8' });
}

describe('the indexed Job of Kubernetes', () => {
  const text = readFileSync(example('kubernetes.yaml'), 'utf8');
  const job = (): Job => parse(text) as Job;
  const schema = JSON.parse(
    readFileSync(new URL('../fixtures/kubernetes/job.schema.json', import.meta.url), 'utf8'),
  ) as object;

  test("keeps to Kubernetes' own schema, which knows a misspelt field", () => {
    const check = new Ajv2020({ strict: false, logger: false }).compile(schema);
    expect([check(job()), check.errors]).toEqual([true, null]);
    const misspelt = job();
    Object.assign(misspelt.spec, { completionmode: 'Indexed' });
    expect(check(misspelt)).toBe(false);
    const wrong = job();
    Object.assign(wrong.spec, { completions: 'eight' });
    expect(check(wrong)).toBe(false);
  });

  test('has as many tasks as its command says shards; rows with an error fail no task, all else does', () => {
    const { spec } = job();
    const [container] = spec.template.spec.containers;
    const script = [...(container?.command ?? []), ...(container?.args ?? [])];
    const codes = [0, 4, 1, 2, 137].map((code) => run(script, `exit ${code}`, {}).status);
    expect(codes).toEqual([0, 0, 1, 1, 1]);
    const { stdout } = run(script, 'echo "$@"', {});
    expect(stdout).toContain(`generate --shard env/${spec.completions ?? 0} --model`);
    expect(stdout).toContain('--resume');
    expect(spec.completionMode).toBe('Indexed');
  });
});

test('the array of Slurm: a task does its shard, whatever part of the array it is started with', () => {
  const text = readFileSync(example('slurm.sh'), 'utf8');
  expect(/^#SBATCH --array=0-(\d+)$/m.exec(text)?.[1]).toBe('7');
  execFileSync('sh', ['-n', example('slurm.sh')]);
  const [input, output] = [path('in.jsonl'), path('out.jsonl')];
  writeLines(input, [...Array.from({ length: 19 }, (_, at) => ({ tokens: [1, 3 + at] })), 'broken']);
  const { status, stderr } = run(
    ['sh', example('slurm.sh')],
    `exec "${process.execPath}" "${built('cli/main.js')}" "$@" --max-new-tokens 2 --ignore-eos --policy default`,
    {
      MODEL: TINY_MODEL,
      INPUT: input,
      OUTPUT: output,
      SLURM_ARRAY_TASK_ID: '3',
      SLURM_ARRAY_TASK_MIN: '3',
      SLURM_ARRAY_TASK_MAX: '3',
      SLURM_ARRAY_TASK_COUNT: '1',
      XDG_CACHE_HOME: path('cache'),
    },
  );
  // One of its rows has an error.
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('(1 with an error)') });
  expect(existsSync(output)).toBe(false);
  expect(readResults(path('out-00003-of-00008.jsonl')).map(({ index }) => index)).toEqual([3, 11, 19]);
});
