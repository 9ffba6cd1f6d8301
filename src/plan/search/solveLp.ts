import solver, { type SolverAPI } from 'javascript-lp-solver';

/** Minimise objective · x over x >= 0 under the rows. */
export interface LinearProgram {
  readonly objective: readonly number[];
  readonly rows: readonly {
    readonly coefficients: readonly number[];
    readonly relation: '<=' | '>=' | '=';
    readonly bound: number;
  }[];
}

export type LpOutcome =
  | {
      readonly status: 'optimal';
      readonly values: readonly number[];
      readonly objective: number;
      /**
       * More constraints hold with equality at the vertex than it has dimensions: other bases describe the same point.
       */
      readonly degenerate: boolean;
    }
  | { readonly status: 'infeasible' }
  | { readonly status: 'unbounded' };

// Its types describe the CommonJS build; what an ES module imports is the solver itself.
const lpSolver = solver as unknown as SolverAPI;

/** A difference that counts as none in a program whose numbers are about 1. */
const TIGHT = 1e-7;

/**
 * Solves a small linear program with javascript-lp-solver. Its numbers should be about 1 (see `solvePlacement`): the
 * solver rounds results to 1e-8.
 */
export function solveLp({ objective, rows }: LinearProgram): LpOutcome {
  const constraints: Record<string, { max?: number; min?: number; equal?: number }> = {};
  const variables: Record<string, Record<string, number>> = Object.fromEntries(
    objective.map((cost, j) => [`x${j}`, { cost }]),
  );
  rows.forEach(({ coefficients, relation, bound }, i) => {
    constraints[`r${i}`] = relation === '<=' ? { max: bound } : relation === '>=' ? { min: bound } : { equal: bound };
    coefficients.forEach((coefficient, j) => {
      const variable = variables[`x${j}`];
      if (variable && coefficient !== 0) variable[`r${i}`] = coefficient;
    });
  });
  const found = lpSolver.Solve({ optimize: 'cost', opType: 'min', constraints, variables }) as Readonly<
    Record<string, unknown>
  >;
  if (found.feasible !== true) return { status: 'infeasible' };
  if (found.bounded === false) return { status: 'unbounded' };
  const values = objective.map((_, j) => {
    const value = found[`x${j}`];
    return typeof value === 'number' ? Math.max(0, value) : 0; // what is not named is zero
  });
  const dot = (a: readonly number[]): number => a.reduce((total, each, j) => total + each * (values[j] ?? 0), 0);
  const tight =
    rows.filter(({ coefficients, bound }) => Math.abs(dot(coefficients) - bound) <= TIGHT).length +
    values.filter((value) => value <= TIGHT).length;
  return { status: 'optimal', values, objective: dot(objective), degenerate: tight > objective.length };
}
