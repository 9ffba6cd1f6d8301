import { constants, createContext } from 'node:vm';
import { TestEnvironment } from 'jest-environment-node';

/** What jest replaces by its own, so that tests and node's modules mean the same. */
const SHARED = new Set(['Buffer', 'ArrayBuffer', 'Uint8Array']);

/**
 * jest's environment for node, with global names as programs have them. There they are looked up in a proxy, each `Math` and `Map` of an inner loop anew:
 * planning, which is arithmetic, takes two and a half times as long. Fake timers would be those of jest's own global object, and are not for use with this.
 */
export default class OrdinaryGlobals extends TestEnvironment {
  /**
   * @param {import('@jest/environment').JestEnvironmentConfig} config
   * @param {import('@jest/environment').EnvironmentContext} context
   */
  constructor(config, context) {
    super(config, context);
    const global = createContext(constants.DONT_CONTEXTIFY);
    for (const name of Reflect.ownKeys(this.global)) {
      if (SHARED.has(name) || !Object.hasOwn(global, name)) Object.defineProperty(global, name, Object.getOwnPropertyDescriptor(this.global, name));
    }
    for (const name of ['dispose', 'asyncDispose']) global.Symbol[name] ??= this.global.Symbol[name];
    global.Error.stackTraceLimit = this.global.Error.stackTraceLimit;
    global.global = global;
    this.global = this.context = global;
    this.moduleMocker = new this.moduleMocker.constructor(global);
  }
}
