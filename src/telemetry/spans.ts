import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as OpenTelemetry from '@opentelemetry/api';
import { errorOf } from '../errors/errorOf.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { ATTRIBUTES, TRACER } from './names.js';

type Api = typeof OpenTelemetry;
type Values = Readonly<Record<string, OpenTelemetry.AttributeValue | undefined>>;
type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Where copies of `@opentelemetry/api` find what was registered with one of them. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

let loaded: Api | 'nowhere' | undefined;

/** Something that takes time, and that somebody traces. */
export interface Span {
  /** Values that are undefined are left out. */
  set(values: Values): void;
  rename(name: string): void;
  /** Does work of which other spans may be a part. */
  run<Result>(work: () => Result): Result;
  /** @param failure what it has ended with, if with something wrong */
  end(failure?: unknown): void;
}

/**
 * The API, once somebody has registered a provider of tracers; undefined before, which costs a look at a global: the
 * package is not even loaded.
 */
function api(): Api | undefined {
  const registered = (globalThis as { readonly [REGISTERED]?: { readonly trace?: unknown } })[REGISTERED];
  if (registered?.trace === undefined) return undefined;
  loaded ??= required() ?? 'nowhere';
  return loaded === 'nowhere' ? undefined : loaded;
}

/** The package where this one is installed, or, where this one is the machine's, the program's. */
function required(): Api | undefined {
  for (const place of [import.meta.url, pathToFileURL(join(process.cwd(), 'package.json'))]) {
    try {
      return createRequire(place)('@opentelemetry/api') as Api;
    } catch {
      // Whoever has registered a provider has a copy that is not to be seen from here.
    }
  }
  return undefined;
}

/**
 * Begins a span; undefined where nobody traces.
 * @param values asked for where somebody does
 * @param headers of a request that may say which trace it is a part of
 */
export function startSpan(name: () => string, values: () => Values, headers?: Headers): Span | undefined {
  const telemetry = api();
  if (!telemetry) return undefined;
  const { trace, context, propagation, SpanKind, SpanStatusCode } = telemetry;
  const within = headers ? propagation.extract(context.active(), headers) : context.active();
  const kind = headers ? SpanKind.SERVER : SpanKind.INTERNAL;
  const span = trace.getTracer(TRACER).startSpan(name(), { kind, attributes: present(values()) }, within);
  const own = trace.setSpan(within, span);
  return {
    set: (more) => void span.setAttributes(present(more)),
    rename: (other) => void span.updateName(other),
    run: (work) => context.with(own, work),
    end: (failure) => {
      if (failure !== undefined) {
        const error = errorOf(failure);
        span.setAttribute(ATTRIBUTES.errorType, error instanceof SpillwayError ? error.code : error.name);
        span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
        span.recordException(error);
      }
      span.end();
    },
  };
}

/** Does work as a span. @param told what is known of it once it is done */
export async function inSpan<Result>(
  name: () => string,
  values: () => Values,
  work: () => Promise<Result>,
  told: (result: Result) => Values,
): Promise<Result> {
  const span = startSpan(name, values);
  if (!span) return work();
  try {
    const result = await span.run(work);
    span.set(told(result));
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

function present(values: Values): OpenTelemetry.Attributes {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
