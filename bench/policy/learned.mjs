// What the benchmark's runs teach of the machine, in order: each is predicted by those before it, and by no other.
import { correctionsOf, learn } from '../../dist/engine/calibration/learn.js';

/**
 * Corrections of the profile from runs that have been; undefined where they taught nothing. @param runs with `work` and
 * `undisturbed`, as `--stats` has them
 */
export function correctionsAfter(runs) {
  return correctionsOf(
    runs.reduce((learned, { work, undisturbed }) => (work ? learn(learned, work, undisturbed) : learned), {}),
  );
}
