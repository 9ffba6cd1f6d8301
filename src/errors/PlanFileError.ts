import { ModelFileError } from './ModelFileError.js';

/** A hardware file or a policy file cannot be used. Its code is that of any file that cannot. */
export class PlanFileError extends ModelFileError {}
