/**
 * All that the command line uses of the library: what any user has, by entry. A command line of one's own could be
 * written with it.
 */
export * from '../index.js';
export * from '../api/jobs.js';
export * from '../api/models.js';
export { serialPipeline } from '../api/operators.js';
export * from '../api/plan.js';
export * from '../api/schedules.js';
export * from '../api/serve.js';

// What is no interface of a library for language models: how files are written, what is said of a wrong value, and
// what the package is. These rooms know nothing of engines, models, plans and jobs.
export { isWithin, rangeWords, wholeRange } from '../arguments/NumberRange.js';
export { isObject } from '../arguments/isObject.js';
export { exceedsMemory } from '../arguments/jsonMemory.js';
export { LOST_CHOICES, losesChoices, readWithDigits, readWithSpelling } from '../arguments/jsonNumbers.js';
export { didYouMean, nearest } from '../arguments/nearest.js';
export { inTurns } from '../collections/inTurns.js';
export { Turns } from '../collections/Turns.js';
export { probeFile, writeFileAtomic } from '../files/atomicFile.js';
export { bytesOf } from '../files/fileBytes.js';
export { describeFileError, fileErrorCode, fileFailure } from '../files/fileErrors.js';
export { checkDistinctFiles } from '../files/realPath.js';
export { specialKind } from '../files/specialFiles.js';
export { StreamWriter } from '../files/StreamWriter.js';
export { userDataFolder } from '../files/userFolders.js';
export { packageRoot } from '../packageRoot.js';
export { sizeOr } from '../units.js';
