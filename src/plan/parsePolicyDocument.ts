import { parsePolicy, type Policy } from './Policy.js';

/**
 * A policy from what `plan --json` printed: the whole document, or its `policy` alone.
 * @param file for messages
 * @throws PlanFileError
 */
export function parsePolicyDocument(document: object, file: string): Policy {
  return parsePolicy(('policy' in document ? document.policy : undefined) ?? document, file);
}
