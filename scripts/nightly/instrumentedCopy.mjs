// Makes a copy of the sources that Node can run and, if asked, that notes which parts of it have run.
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
  allowJs: true,
};
/** Read by workers as they are. */
const LINKED = ['package.json', 'native', 'hardware', 'test/fixtures'];
const COPIED = ['src', 'test/fuzz', 'test/model/support'];
/**
 * The readers of model files and of rows. What the rest of the engine does depends on timing: which rows share pages,
 * which of them go first.
 */
const READERS = /^(src\/model\/|src\/regex\/|src\/engine\/rows\/)/;

/**
 * @param folder an empty one
 * @param guided whether readers note in `globalThis.spillwayCoverage` which of their branches have run
 * @returns where each branch is that is noted: file and line, by its number
 */
export function instrumentedCopy(folder, guided) {
  const places = new Map();
  const noted = guided ? places : undefined;
  for (const name of LINKED) link(name, folder);
  for (const name of COPIED) copy(name, folder, noted);
  link('node_modules', folder);
  return places;
}

function link(name, folder) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  symlinkSync(join(ROOT, name), join(folder, name));
}

function copy(name, folder, places) {
  for (const entry of readdirSync(join(ROOT, name), { withFileTypes: true, recursive: true })) {
    const file = relative(ROOT, join(entry.parentPath, entry.name));
    if (!entry.isFile() || !/(?<!\.d)\.(ts|js|json)$/.test(file) || file.endsWith('.test.ts')) continue;
    const target = join(folder, file.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    const text = readFileSync(join(ROOT, file), 'utf8');
    writeFileSync(
      target,
      file.endsWith('.json') ? text : compiled(file, text, READERS.test(file) ? places : undefined),
    );
  }
}

function compiled(file, text, places) {
  if (!places && file.endsWith('.js')) return text;
  const { outputText } = ts.transpileModule(text, {
    fileName: file,
    compilerOptions: OPTIONS,
    ...(places && { transformers: { after: [branches(file, text, places)] } }),
  });
  return places
    ? `const spillwayCovered = globalThis.spillwayCoverage.seen, spillwayReached = globalThis.spillwayCoverage.reached;\n${outputText}`
    : outputText;
}

/**
 * Puts a note at the beginning of every function, branch, loop, case and handler, and of what stands after `&&`, `||`,
 * `??`.
 */
function branches(file, text, places) {
  const { factory: make } = ts;
  let count = 0;
  const note = (node) => {
    const block = place(file, count++);
    places.set(block, `${file}:${lineOf(text, ts.getOriginalNode(node).pos)}`);
    const number = make.createNumericLiteral(block);
    const seen = make.createElementAccessExpression(make.createIdentifier('spillwayCovered'), number);
    return make.createLogicalOr(
      seen,
      make.createCallExpression(make.createIdentifier('spillwayReached'), undefined, [number]),
    );
  };
  const statement = (node) => make.createExpressionStatement(note(node));
  const noted = (expression) =>
    make.createParenthesizedExpression(
      make.createComma(
        make.createParenthesizedExpression(note(expression)),
        make.createParenthesizedExpression(expression),
      ),
    );
  const body = (inner) =>
    ts.isBlock(inner)
      ? make.updateBlock(inner, [statement(inner), ...inner.statements])
      : make.createBlock([statement(inner), inner], true);
  return (context) => (source) => {
    const visit = (given) => {
      const node = ts.visitEachChild(given, visit, context);
      if (ts.isIfStatement(node))
        return make.updateIfStatement(
          node,
          node.expression,
          body(node.thenStatement),
          node.elseStatement && body(node.elseStatement),
        );
      if (ts.isForStatement(node))
        return make.updateForStatement(node, node.initializer, node.condition, node.incrementor, body(node.statement));
      if (ts.isForOfStatement(node))
        return make.updateForOfStatement(
          node,
          node.awaitModifier,
          node.initializer,
          node.expression,
          body(node.statement),
        );
      if (ts.isForInStatement(node))
        return make.updateForInStatement(node, node.initializer, node.expression, body(node.statement));
      if (ts.isWhileStatement(node)) return make.updateWhileStatement(node, node.expression, body(node.statement));
      if (ts.isCaseClause(node))
        return make.updateCaseClause(node, node.expression, [statement(node), ...node.statements]);
      if (ts.isDefaultClause(node)) return make.updateDefaultClause(node, [statement(node), ...node.statements]);
      if (ts.isCatchClause(node)) return make.updateCatchClause(node, node.variableDeclaration, body(node.block));
      if (ts.isConditionalExpression(node))
        return make.updateConditionalExpression(
          node,
          node.condition,
          node.questionToken,
          noted(node.whenTrue),
          node.colonToken,
          noted(node.whenFalse),
        );
      if (
        ts.isBinaryExpression(node) &&
        [
          ts.SyntaxKind.AmpersandAmpersandToken,
          ts.SyntaxKind.BarBarToken,
          ts.SyntaxKind.QuestionQuestionToken,
        ].includes(node.operatorToken.kind)
      ) {
        return make.updateBinaryExpression(node, node.left, node.operatorToken, noted(node.right));
      }
      if (ts.isArrowFunction(node) && !ts.isBlock(node.body))
        return make.updateArrowFunction(
          node,
          node.modifiers,
          undefined,
          node.parameters,
          undefined,
          node.equalsGreaterThanToken,
          noted(node.body),
        );
      if (ts.isArrowFunction(node))
        return make.updateArrowFunction(
          node,
          node.modifiers,
          undefined,
          node.parameters,
          undefined,
          node.equalsGreaterThanToken,
          body(node.body),
        );
      if (ts.isFunctionDeclaration(node))
        return make.updateFunctionDeclaration(
          node,
          node.modifiers,
          node.asteriskToken,
          node.name,
          undefined,
          node.parameters,
          undefined,
          node.body && body(node.body),
        );
      if (ts.isMethodDeclaration(node))
        return make.updateMethodDeclaration(
          node,
          node.modifiers,
          node.asteriskToken,
          node.name,
          undefined,
          undefined,
          node.parameters,
          undefined,
          node.body && body(node.body),
        );
      return node;
    };
    return ts.visitNode(source, visit);
  };
}

/** Where an offset is. */
function lineOf(text, offset) {
  return text.slice(0, offset).split('\n').length;
}

/** A number for the n-th note of a file, the same in every copy: 20 bits of a hash. */
function place(file, n) {
  let hash = 0x811c9dc5;
  for (const unit of `${file}:${n}`) hash = Math.imul(hash ^ unit.charCodeAt(0), 0x01000193);
  return (hash ^ (hash >>> 15)) & 0xfffff;
}
