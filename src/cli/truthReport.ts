import type { TruthReport } from './library.js';

/** Answers of which so many are shown by what was right. */
const SHOWN = 10;

/** How answers compare with what is right, in lines: accuracy, calibration, and who was taken for whom. */
export function describeTruth({
  column,
  answer,
  rows,
  right,
  accuracy,
  unknown,
  errors,
  confusion,
  calibration,
  models = {},
}: TruthReport): string {
  const of = answer === undefined || answer === column ? column : `${answer} by ${column}`;
  const beside = [
    ...(unknown > 0 ? [`${unknown} without a truth`] : []),
    ...(errors > 0 ? [`${errors} with an error`] : []),
  ];
  const sure = calibration ? [`expected calibration error ${calibration.error.toFixed(3)}`] : [];
  const byModel = Object.entries(models).map(([model, each]) => `${each.right} of ${each.rows} by ${model}`);
  const parts = [`${right} of ${rows} right (${(100 * accuracy).toFixed(1)}%)`, ...byModel, ...sure, ...beside];
  const lines = Object.entries(confusion)
    .slice(0, SHOWN)
    .map(([truth, by]) => {
      const given = Object.entries(by)
        .sort(([, a], [, b]) => b - a)
        .slice(0, SHOWN);
      return `  ${truth}: ${given.map(([text, count]) => `${count} ${text}`).join(', ')}`;
    });
  return [`truth of ${of}: ${parts.join(', ')}`, ...lines].join('\n');
}
