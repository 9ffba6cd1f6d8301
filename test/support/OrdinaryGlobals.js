import { constants, createContext } from 'node:vm';
import { TestEnvironment } from 'jest-environment-node';

/** What jest replaces by its own, so that tests and node's modules mean the same. */
const SHARED = new Set(['Buffer', 'ArrayBuffer', 'Uint8Array']);

/**
 * jest's environment for node, with global names as programs have them. There they are looked up in a proxy, each `Math` and `Map` of an inner loop anew:
 * planning, which is arithmetic, takes two and a half times as long.
 */
export default class OrdinaryGlobals extends TestEnvironment {
  /**
   * @param {import('@jest/environment').JestEnvironmentConfig} config
   * @param {import('@jest/environment').EnvironmentContext} context
   */
  constructor(config, context) {
    super(config, context);
    const global = createContext(constants.DONT_CONTEXTIFY);
    for (const name of Reflect.ownKeys(this.global))
      if (SHARED.has(name) || !Object.hasOwn(global, name)) adopt(global, name, this.global);
    for (const name of ['dispose', 'asyncDispose']) global.Symbol[name] ??= this.global.Symbol[name];
    global.Error.stackTraceLimit = this.global.Error.stackTraceLimit;
    global.global = global;
    this.global = this.context = global;
    this.moduleMocker = new this.moduleMocker.constructor(global);
    this.fakeTimersModern = new this.fakeTimersModern.constructor({ config: config.projectConfig, global });
  }
}

/** Names that are looked up when they are first used stay so, but settle here: what a test puts in their place is what it finds. */
function adopt(global, name, from) {
  const descriptor = Object.getOwnPropertyDescriptor(from, name);
  if ('value' in descriptor) {
    Object.defineProperty(global, name, descriptor);
    return;
  }
  const { enumerable } = descriptor;
  const settle = (value) =>
    Object.defineProperty(global, name, { configurable: true, enumerable, writable: true, value });
  Object.defineProperty(global, name, {
    configurable: true,
    enumerable,
    get: () => settle(from[name])[name],
    set: settle,
  });
}
