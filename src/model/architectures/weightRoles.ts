import type { DecoderSpec, LayerSpec } from '../DecoderSpec.js';
import { shapeIn, type Roles, type Shape, type ShapeOf } from './roleSizes.js';
import { EXPERT_ROLES, GLOBAL_ROLES, LAYER_ROLES } from './roleTables.js';

type LayerRoles = typeof LAYER_ROLES;
export type GlobalRole = keyof typeof GLOBAL_ROLES | `pooled.${number}.${'weight' | 'bias'}`;
export type LayerRole =
  | { [Group in keyof LayerRoles]: keyof LayerRoles[Group] }[keyof LayerRoles]
  | `expert.${number}.${keyof typeof EXPERT_ROLES}`;

const GROUPS = Object.entries<Roles>(LAYER_ROLES);
const SHAPES = new Map(
  [GLOBAL_ROLES, ...GROUPS.map(([, roles]) => roles)].flatMap((roles: Roles) => Object.entries(roles)),
);
const EXPERT_SHAPES = new Map(Object.entries<ShapeOf>(EXPERT_ROLES));
const GROUP_OF_ROLES = new Map(
  GROUPS.flatMap(([group, roles]) => Object.keys(roles).map((role) => [role, group] as const)),
);
const FORGETTING: readonly string[] = ['delta-rule', 'state-space', 'selective-scan'];

/** Tells whether a role is of layers' feed-forward blocks. */
export function isOfBlock(role: GlobalRole | LayerRole): boolean {
  return GROUP_OF_ROLES.get(role) === 'block' || role.startsWith('expert.');
}

/** Tells whether a layer has a weight of that role. */
export function hasRole(
  { mixer = 'attention', mixerOnly = false, stateBeside = false }: Partial<LayerSpec>,
  role: GlobalRole | LayerRole,
): boolean {
  if (isOfBlock(role)) return !mixerOnly;
  const group = GROUP_OF_ROLES.get(role) ?? 'any';
  const mixers = stateBeside ? [mixer, 'state-space'] : [mixer];
  return group === 'any' || mixers.some((each) => group === each || (group === 'forgets' && FORGETTING.includes(each)));
}

/**
 * The shape that the decoder needs for a role.
 * @param layer of a role of layers
 */
export function roleShape(decoder: DecoderSpec, role: GlobalRole | LayerRole, layer: LayerSpec | undefined): Shape {
  const shape = SHAPES.get(role) ?? EXPERT_SHAPES.get(role.replace(/^expert\.\d+\./, ''));
  if (shape !== undefined) return shapeIn(decoder, layer, shape);
  const [, number, part] = /^pooled\.(\d+)\.(weight|bias)$/.exec(role) ?? [];
  if (number === undefined) throw new RangeError(`${role}: found an unknown role, expected one of a decoder`);
  return pooledShape(decoder, Number(number), part === 'weight');
}

function pooledShape({ pooled = [], hiddenSize }: DecoderSpec, at: number, weight: boolean): Shape {
  const layer = pooled[at];
  if (layer === undefined) throw new RangeError(`pooled.${at}: found a role of a layer that the decoder does not have`);
  return weight && layer.kind === 'dense' ? [layer.outputs, pooled[at - 1]?.outputs ?? hiddenSize] : [layer.outputs];
}
