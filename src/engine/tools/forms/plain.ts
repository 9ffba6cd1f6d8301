import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

/** Calls of a model whose own form is not known: a list in JSON, `[{"name": …, "arguments": …}]`, and nothing else. */
export const plain = sectionForm({
  name: 'plain',
  isIn: () => true,
  trigger: '[{"name": "',
  alone: { after: '', texts: [] },
  section: ['[', ']'],
  between: ', ',
  begins: '{"name": "',
  named: ['", "arguments": '],
  ends: ['}'],
  arguments: jsonArguments,
});
