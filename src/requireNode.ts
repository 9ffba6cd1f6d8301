import { oldNode } from './oldNode.js';

// The first import of the library: an old Node is told before it stumbles over something that it does not have. (What
// Node's modules lack would be found even earlier: of what only newer ones export, `hash` of node:crypto and `crc32` of
// node:zlib, the whole module is imported.)
const problem = oldNode(process.versions.node);
if (problem !== undefined) throw new Error(`spillway: ${problem}`);
