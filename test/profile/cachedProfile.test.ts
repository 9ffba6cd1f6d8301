import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { type HardwareProfile, checkSameMachine, parseHardware } from '../../src/plan/HardwareProfile.js';
import { cachedProfile, keptProfilePath, profilePath, refreshProfile } from '../../src/profile/cachedProfile.js';
import { profileMachine, type ProfileOptions, type ProfileProgress } from '../../src/profile/profileMachine.js';
import { correctionsPath, learnRun } from '../../src/engine/calibration/correctionsFile.js';
import { readHardware, readHardwareFile } from '../../src/profile/readHardware.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();
const machine = loadAddon().machine();
/** As little work as there is: these tests are not about the figures. */
const options = (more: ProfileOptions = {}): ProfileOptions => ({
  budget: 0.001,
  memory: '16MiB',
  disk: path('disk'),
  diskBytes: '16MiB',
  ...more,
});

const before = process.env['XDG_CACHE_HOME'];
let home = 0;
beforeEach(() => {
  process.env['XDG_CACHE_HOME'] = path(`cache${home++}`);
});
afterAll(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME'];
  else process.env['XDG_CACHE_HOME'] = before;
});

/** Marks the kept profile, so that it can be told from one that was measured anew. */
async function mark(change: (profile: HardwareProfile) => unknown, given = options()): Promise<string> {
  const file = await profilePath(given, machine);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(change(structuredClone(measured))));
  return file;
}

let measured: HardwareProfile;
beforeAll(async () => {
  measured = await profileMachine(options());
});

describe('profileMachine', () => {
  test('is a profile of this machine, and leaves no file on the disk', () => {
    expect(() => checkSameMachine(measured, machine)).not.toThrow();
    expect(parseHardware(JSON.parse(JSON.stringify(measured)), 'round trip')).toEqual(measured);
    expect(measured.memory.cpuBytes).toBeLessThanOrEqual(machine.memoryBytes);
    expect(measured.cpu.threads).toBe(machine.processors);
    expect(measured.machine.instructionSet).toBe(machine.instructionSets.at(-1));
    expect(new Set(measured.cpu.matmul.map(({ weights, tokens }) => `${weights} ${tokens}`)).size).toBe(30);
    expect(readdirSync(path('disk'))).toEqual([]);
    // Nothing computes a million times faster or slower than anything that there is.
    for (const { flopsPerSecond } of measured.cpu.matmul)
      expect(flopsPerSecond > 1e6 && flopsPerSecond < 1e16).toBe(true);
    for (const spread of Object.values(measured.spread)) expect(spread).toBeGreaterThanOrEqual(0);
  });

  test('says how far it is, and ends soon when it is told to', async () => {
    const steps: ProfileProgress[] = [];
    const controller = new AbortController();
    const running = profileMachine(
      options({
        budget: 1,
        diskBytes: 0,
        signal: controller.signal,
        onProgress: (step) => {
          steps.push(step);
          controller.abort('enough');
        },
      }),
    );
    await expect(running).rejects.toMatchObject({ code: 'interrupted', cause: 'enough' });
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ done: 0, what: 'memory' });
    await expect(profileMachine(options({ signal: controller.signal }))).rejects.toMatchObject({ code: 'interrupted' });
  });

  test('does not block JavaScript', async () => {
    let turns = 0;
    const timer = setInterval(() => turns++, 5);
    await profileMachine(options({ diskBytes: 0 }));
    clearInterval(timer);
    expect(turns).toBeGreaterThan(3);
  });

  test('what a callback throws ends it', async () => {
    const throwing = (): void => {
      throw new RangeError('of the caller');
    };
    await expect(profileMachine(options({ budget: 1, diskBytes: 0, onProgress: throwing }))).rejects.toThrow(
      'of the caller',
    );
  });

  test.each<[ProfileOptions, string]>([
    [{ budget: 0 }, 'budget: found 0, expected a number above 0 and at most 100'],
    [{ budget: NaN }, 'budget: found NaN'],
    [{ threads: 0 }, 'threads: found 0, expected a whole number from 1 to 1024'],
    [{ diskBytes: '2GiB' }, 'diskBytes: found 2GiB, expected at most 1GiB'],
    [{ diskBytes: 'much' }, 'diskBytes: found "much"'],
    [{ weights: [] }, 'weights: found an array of 0, expected a list of f32, f16, q8, q4, q4_k, q6_k'],
    [{ weights: ['q4', 'q3' as never] }, 'weights: found "q3", expected one of f32, f16, q8, q4, q4_k, q6_k'],
    [{ memory: '-1' }, 'memory: found "-1"'],
  ])('%j is refused', async (bad, sentence) => {
    await expect(profileMachine(bad)).rejects.toThrow(sentence);
  });

  test.each<[unknown, string]>([
    [null, 'options: found null, expected an object'],
    [{ thread: 2 }, 'options: found the unknown "thread", expected any of disk,'],
    [{ threads: '2' }, 'threads: found "2", expected a whole number from 1 to 1024'],
    [{ budget: '1' }, 'budget: found "1", expected a number above 0 and at most 100'],
    [{ disk: 5 }, 'disk: found 5, expected a path'],
    [{ diskBytes: [0] }, 'diskBytes: found an array of 1, expected a size'],
    [{ diskBytes: Object.create(null) as unknown }, 'diskBytes: found an empty object, expected a size'],
    [{ signal: 'stop' }, 'signal: found "stop", expected an AbortSignal'],
    [{ onProgress: true }, 'onProgress: found true, expected a function'],
    [{ onNote: 'note' }, 'onNote: found "note", expected a function'],
  ])('%j is refused by whoever takes options, whether anything is to be measured or not', async (bad, sentence) => {
    for (const take of [profileMachine, cachedProfile, refreshProfile])
      await expect(take(bad as ProfileOptions)).rejects.toThrow(sentence);
  });

  test('a machine is a name or a file', async () => {
    await expect(readHardware(5 as unknown as string)).rejects.toThrow(
      'hardware: found 5, expected this, flexgen-t4, ',
    );
    await expect(readHardware('nowhere')).rejects.toThrow('hardware: found "nowhere", expected this, flexgen-t4, ');
    await expect(readHardwareFile('flexgen-t4')).rejects.toThrow(
      'hardware: found "flexgen-t4", expected this, or a file (./NAME for one of that name)',
    );
  });

  test('a disk that cannot be written is left out', async () => {
    writeFileSync(path('file'), '');
    const profile = await profileMachine(options({ disk: path('file') }));
    expect(profile.links).toEqual({});
    expect(profile.memory.diskBytes).toBe(0);
    expect(profile.leftOut?.['disk']).toContain(path('file'));
  });
});

describe('cachedProfile', () => {
  test('measures once, and looks up what is free each time', async () => {
    const first = await cachedProfile(options());
    const file = await profilePath(options(), machine);
    expect(readdirSync(dirname(file))).toHaveLength(1);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(first);
    await mark((profile) => ({ ...profile, name: 'kept', memory: { ...profile.memory, cpuBytes: 12345 } }));
    const second = await cachedProfile(options({ budget: 0.9 }));
    expect(second.name).toBe('kept');
    expect(second.memory.cpuBytes).toBeGreaterThan(12345);
    expect((await readHardware('this', options())).name).toBe('kept');
    expect((await refreshProfile(options())).name).not.toBe('kept');
    expect((await cachedProfile(options())).name).not.toBe('kept');
  });

  test.each<[string, (profile: HardwareProfile) => unknown]>([
    [
      'of another machine',
      (profile) => ({ ...profile, name: 'kept', machine: { ...profile.machine, processorName: 'another' } }),
    ],
    [
      'of a machine with other memory',
      (profile) => ({
        ...profile,
        name: 'kept',
        machine: { ...profile.machine, memoryBytes: machine.memoryBytes * 2 },
      }),
    ],
    [
      'with a field that is wrong',
      (profile) => ({ ...profile, name: 'kept', cpu: { ...profile.cpu, memoryBytesPerSecond: 0 } }),
    ],
    ['with no object in it', () => [1]],
  ])('a kept file %s is measured again', async (_, change) => {
    const file = await mark(change);
    expect((await cachedProfile(options())).name).not.toBe('kept');
    expect(parseHardware(JSON.parse(readFileSync(file, 'utf8')), file).name).not.toBe('kept');
  });

  test.each(['', '{"format":', '\u0000'])('so is one that is damaged: %j', async (text) => {
    const file = await mark((profile) => profile);
    writeFileSync(file, text);
    expect((await cachedProfile(options())).name).toBe(measured.name);
    expect(() => parseHardware(JSON.parse(readFileSync(file, 'utf8')), file)).not.toThrow();
  });

  test('other threads, processors, memory, sets, disks are other keys', async () => {
    const key = (more: ProfileOptions, change: object = {}): Promise<string> =>
      profilePath(options(more), { ...machine, ...change });
    const keys = await Promise.all([
      key({}),
      key({ threads: machine.processors + 1 }),
      key({}, { processors: 99 }),
      key({}, { processorSeconds: 0.5 }),
      key({}, { memoryBytes: machine.memoryBytes * 2 }),
      key({}, { processorName: 'another' }),
      key({}, { instructionSets: ['scalar'] }),
      key({ diskBytes: 0 }),
      key({ disk: '/proc' }),
      key({ weights: ['q4'] }),
      key({ weights: ['q4', 'f16'] }),
    ]);
    expect(new Set(keys).size).toBe(keys.length);
    expect(await key({ weights: ['f16', 'q4', 'f16'] })).toBe(keys.at(-1));
    expect(await key({ budget: 3, diskBytes: '64MiB' })).toBe(keys[0]);
    expect(await key({ disk: path('not/there/yet') })).toBe(keys[0]);
  });

  test('so are GPUs, by name, memory and driver; how much of one may be used is not', async () => {
    const gpu = { name: 'A GPU', memoryBytes: 2 ** 34, computeCapability: '9.0', multiprocessors: 100, driver: '12.4' };
    const key = (gpuMemory: string | undefined, change: object = {}): Promise<string> =>
      profilePath(options({ gpuMemory }), { ...machine, gpus: [{ ...gpu, ...change }] });
    const keys = await Promise.all([
      key(undefined),
      key('8GiB'),
      key('8GiB', { name: 'Another' }),
      key('8GiB', { memoryBytes: 2 ** 35 }),
      key('8GiB', { driver: '13.0' }),
    ]);
    expect(new Set(keys).size).toBe(keys.length);
    expect(await key('4GiB')).toBe(keys[1]);
    expect(await key('0')).toBe(keys[0]);
    await expect(key('17GiB')).rejects.toThrow('gpuMemory: found 17 GiB, expected at most the 16 GiB of A GPU');
    await expect(key('1MiB')).rejects.toThrow(
      'gpuMemory: found 1 MiB, expected at least 64 MiB to measure the GPU with',
    );
    await expect(profilePath(options({ gpuMemory: '1GiB' }), { ...machine, gpus: [] })).rejects.toThrow(
      'there is no GPU here',
    );
  });

  test('who asks for less measures less, and takes a whole one where there is one', async () => {
    const less = options({ weights: ['q4'], diskBytes: 0, budget: 0.5 });
    const part = await cachedProfile(less);
    expect(new Set(part.cpu.matmul.map(({ weights }) => weights))).toEqual(new Set(['q4']));
    expect([part.links, part.cpu.otherInstructionSets]).toEqual([{}, undefined]);
    const file = await profilePath(less, machine);
    expect([readdirSync(dirname(file)).length, await keptProfilePath(less, machine)]).toEqual([1, file]);
    // It serves nobody who asks for more.
    expect(new Set((await cachedProfile(options())).cpu.matmul.map(({ weights }) => weights)).size).toBe(6);
    await mark((profile) => ({ ...profile, name: 'whole' }));
    expect((await cachedProfile(less)).name).toBe('whole');
    expect(await keptProfilePath(less, machine)).toBe(await profilePath(options(), machine));
  });

  test('what runs taught is kept beside the profile that is used, not beside a damaged one', async () => {
    const less = options({ weights: ['q4'], diskBytes: 0 });
    writeFileSync(await mark((profile) => profile), '{');
    const file = await mark((profile) => ({ ...profile, name: 'part' }), less);
    const part = await cachedProfile(less);
    expect(part.name).toBe('part');
    const kept = await keptProfilePath(less, machine);
    expect(kept).toBe(file);
    await learnRun(correctionsPath(kept), part, { 'disk.read': { seconds: 13, profileSeconds: 10 } }, 1);
    expect((await cachedProfile(less)).corrections?.['disk.read']).toBeGreaterThan(1.2);
  });

  test('what runs taught comes with it, until somebody measures again', async () => {
    const first = await cachedProfile(options());
    expect(first.corrections).toBeUndefined();
    const kept = correctionsPath(await profilePath(options(), machine));
    await learnRun(kept, first, { 'disk.read': { seconds: 13, profileSeconds: 10 } }, 1);
    const { corrections, ...rest } = await cachedProfile(options());
    expect(corrections?.['disk.read']).toBeGreaterThan(1.2);
    expect({ ...rest, memory: 0 }).toEqual({ ...first, memory: 0 });
    expect((await readHardware('this', options())).corrections).toEqual(corrections);
    expect((await refreshProfile(options())).corrections).toBeUndefined();
    expect((await cachedProfile(options())).corrections).toBeUndefined();
  });

  test('what runs taught is not used where its file is damaged, and a line says so', async () => {
    const file = correctionsPath(
      await mark(({ disturbed: _busy, ...profile }) => ({ ...profile, name: 'kept', corrections: { 'disk.read': 3 } })),
    );
    const notes: string[] = [];
    const noted = async (text: string): Promise<string | undefined> => {
      writeFileSync(file, text);
      const profile = await cachedProfile(options({ onNote: (line) => notes.push(line) }));
      expect([profile.name, profile.corrections]).toEqual(['kept', undefined]);
      return notes.pop();
    };
    const known = { logRatio: 0.1, lastLogRatio: 0.1, weight: 1, runs: 1 };
    const content = (learned: unknown): string =>
      JSON.stringify({ format: 'spillway-corrections-1', profile: 'x', learned });
    expect(await noted(content({ 'disk.read': known }))).toBeUndefined();
    expect(await noted('{')).toContain('what runs taught of this machine is not used');
    expect(await noted('[]')).toContain('is not used');
    expect(await noted(content({ 'disk.read': { ...known, logRatio: 9 } }))).toContain(
      'expected logarithms of factors from 0.25 to 4',
    );
    expect(await noted(content({ 'disk.read': { ...known, logRatio: '1' } }))).toContain(
      'learned.disk.read.logRatio: found "1", expected',
    );
    expect(await noted(content({ 'disk.eat': known }))).toContain('is not used');
    expect(await noted(content({}).replace('corrections-1', 'corrections-2'))).toContain('format');
  });

  test('where nothing can be kept it is measured all the same', async () => {
    writeFileSync(path('no-folder'), '');
    process.env['XDG_CACHE_HOME'] = path('no-folder');
    expect((await cachedProfile(options())).name).toBe(measured.name);
    rmSync(path('no-folder'));
  });
});
