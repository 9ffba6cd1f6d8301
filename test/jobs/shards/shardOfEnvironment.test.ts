import { expect, test } from '@jest/globals';
import { UsageError } from '../../../src/errors/UsageError.js';
import { shardOfEnvironment } from '../../../src/jobs/shards/shardOfEnvironment.js';

type Variables = Readonly<Record<string, string>>;

/** A task of a Slurm array, as sbatch makes it of `--array=least-most:step`. */
function slurm(id: number, least: number, most: number, step = 1): Variables {
  return {
    SLURM_ARRAY_TASK_ID: String(id),
    SLURM_ARRAY_TASK_MIN: String(least),
    SLURM_ARRAY_TASK_MAX: String(most),
    SLURM_ARRAY_TASK_STEP: String(step),
    SLURM_ARRAY_TASK_COUNT: String(Math.floor((most - least) / step) + 1),
  };
}

test.each<[string, Variables, number | undefined, object]>([
  ['a Kubernetes indexed Job', { JOB_COMPLETION_INDEX: '3' }, 8, { index: 3, count: 8 }],
  ['Slurm from 0', slurm(5, 0, 7), undefined, { index: 5, count: 8 }],
  ['Slurm from 1', slurm(8, 1, 8), undefined, { index: 7, count: 8 }],
  ['Slurm in steps', slurm(8, 0, 15, 4), undefined, { index: 2, count: 4 }],
  ['Slurm, one task again, with a count', slurm(5, 5, 5), 8, { index: 5, count: 8 }],
  [
    'Slurm before it told of bounds',
    { SLURM_ARRAY_TASK_ID: '1', SLURM_ARRAY_TASK_COUNT: '2' },
    undefined,
    { index: 1, count: 2 },
  ],
  ['AWS Batch', { AWS_BATCH_JOB_ARRAY_INDEX: '0', AWS_BATCH_JOB_ARRAY_SIZE: '10' }, undefined, { index: 0, count: 10 }],
  [
    'empty variables of another system',
    { JOB_COMPLETION_INDEX: '1', SLURM_ARRAY_TASK_ID: '' },
    2,
    { index: 1, count: 2 },
  ],
])('%s', (_, variables, count, shard) => {
  expect(shardOfEnvironment(variables, count)).toEqual(shard);
});

test.each<[string, Variables, number | undefined, string]>([
  [
    'no array job',
    {},
    undefined,
    'found none of JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID, AWS_BATCH_JOB_ARRAY_INDEX in the environment',
  ],
  [
    'two at once',
    { ...slurm(0, 0, 1), JOB_COMPLETION_INDEX: '0' },
    2,
    'found JOB_COMPLETION_INDEX and SLURM_ARRAY_TASK_ID in the environment, expected one',
  ],
  [
    'Kubernetes without a count',
    { JOB_COMPLETION_INDEX: '3' },
    undefined,
    'does not say how many tasks it has; say so: env/N',
  ],
  [
    'some tasks of an array again',
    slurm(5, 5, 6),
    undefined,
    'SLURM_ARRAY_TASK_ID=5 in a Slurm array of 2 tasks from 5 to 6, expected all tasks from 0 or 1 on',
  ],
  ['uneven numbers', { ...slurm(3, 0, 7), SLURM_ARRAY_TASK_COUNT: '3' }, undefined, 'numbered evenly'],
  [
    'numbers from 1 with a count',
    slurm(8, 1, 8),
    8,
    'SLURM_ARRAY_TASK_ID: found 8, expected a whole number from 0 to 7, as there are 8 shards, counted from 0',
  ],
  [
    'no number',
    { JOB_COMPLETION_INDEX: 'x' },
    2,
    'JOB_COMPLETION_INDEX: found "x" in the environment, expected a whole number',
  ],
  [
    'no count',
    { AWS_BATCH_JOB_ARRAY_INDEX: '0' },
    undefined,
    'AWS_BATCH_JOB_ARRAY_SIZE: found undefined in the environment',
  ],
  ['no shards', { JOB_COMPLETION_INDEX: '0' }, 0, 'shards: found 0, expected a whole number from 1 to 100000'],
])('refused: %s', (_, variables, count, message) => {
  expect(() => shardOfEnvironment(variables, count)).toThrow(UsageError);
  expect(() => shardOfEnvironment(variables, count)).toThrow(message);
});
