#!/usr/bin/env node
import { oldNode } from '../oldNode.js';

// Nothing else is loaded before: an old Node would stumble over it.
const problem = oldNode(process.versions.node);
if (problem === undefined) await import('./main.js');
else {
  process.stderr.write(`error: ${problem}\n`);
  process.exitCode = 1;
}
