import { describe, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';

/** An addon that was built without cargo holds no answer to a form: there is nothing to test but that it says so. */
const { grammars } = loadAddon();
export const describeGrammars: typeof describe.skip = grammars ? describe : describe.skip;
export const testGrammars: typeof test.skip = grammars ? test : test.skip;
