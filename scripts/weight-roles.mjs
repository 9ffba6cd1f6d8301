#!/usr/bin/env node
// src/model/architectures/roleTables.ts, made of native/model/WeightRoles.def: run it when a role has changed. A test
// says whether the file is up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

const DEFINITION = fileURLToPath(new URL('../native/model/WeightRoles.def', import.meta.url));
const TABLES = fileURLToPath(new URL('../src/model/architectures/roleTables.ts', import.meta.url));

/** The text of the library's tables. @param definition that of the addon's, which has one row a role */
export async function roleTables(definition) {
  const rows = [...definition.matchAll(/^SPILLWAY_(GLOBAL|LAYER|EXPERT)_ROLE\(/gm)].map(
    ({ 0: { length }, 1: owner, index }) => ({ owner, parts: argumentsAt(definition, index + length) }),
  );
  const of = (owner) => rows.filter((row) => row.owner === owner).map(({ parts }) => parts);
  const layers = of('LAYER');
  const groups = [...new Set(layers.map(([group]) => group))].map((group) => {
    const roles = layers.filter(([other]) => other === group).map(([, ...role]) => role);
    return `'${nameOf(group)}': ${table(roles)},`;
  });
  const text = `// Made of native/model/WeightRoles.def by \`node scripts/weight-roles.mjs\`.
import type { Mixer } from '../DecoderSpec.js';
import { roles, type Roles } from './roleSizes.js';

export const GLOBAL_ROLES = ${table(of('GLOBAL'))};

/** By the layers that have them: any, those with a feed-forward block, those whose state decays, those of a mixer. */
export const LAYER_ROLES = {${groups.join('\n')}} satisfies Readonly<Record<'any' | 'block' | 'forgets' | Mixer, Roles>>;

export const EXPERT_ROLES = ${table(of('EXPERT'))};
`;
  return await format(text, { ...(await resolveConfig(TABLES)), filepath: TABLES });
}

/** The arguments of a macro's call. @param at where they begin */
function argumentsAt(text, at) {
  const parts = [''];
  for (let i = at, depth = 0; depth >= 0 && i < text.length; i++) {
    depth += { '(': 1, ')': -1 }[text[i]] ?? 0;
    if (text[i] === ',' && depth === 0) parts.push('');
    else if (depth >= 0) parts[parts.length - 1] += text[i];
  }
  return parts.map((part) => part.trim());
}

/** Layers that have a role, as the library calls them. */
function nameOf(group) {
  const [, mixer] = /^mixes\(Mixer::(\w+)\)$/.exec(group) ?? [];
  return mixer?.replaceAll(/(?!^)[A-Z]/g, '-$&').toLowerCase() ?? group;
}

function table(roles) {
  return `roles({${roles.map(([role, , , ...shape]) => `${role}: ${shapeOf(shape)},`).join('\n')}})`;
}

function shapeOf(shape) {
  const plain = shape.map((size) => size.replace(/^orMore\((.*)\)$/, '$1'));
  const names = new Set(plain.join(' ').match(/(?<![.\w])[a-z]\w*/g));
  const sizes = plain.map((size) =>
    size.replaceAll(/\brecurrent[.\w]+/g, (path) => `(${path.replaceAll('.', '?.')} ?? 0)`),
  );
  return `(${names.size > 0 ? `{ ${[...names].join(', ')} }` : ''}) => [${sizes.join(', ')}]`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(TABLES, await roleTables(readFileSync(DEFINITION, 'utf8')));
