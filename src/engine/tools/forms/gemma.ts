import { bareArguments } from '../bareArguments.js';
import { sectionForm } from '../sectionForm.js';

/** Gemma 4: `<|tool_call>call:NAME{name:<|"|>text<|"|>,…}<tool_call|>`. */
export const gemma4 = sectionForm({
  name: 'gemma4',
  isIn: (template) => template.includes('<|tool_call>') && template.includes('<|"|>'),
  trigger: '<|tool_call>',
  between: '',
  begins: '<|tool_call>call:',
  named: [],
  ends: ['<tool_call|>'],
  arguments: bareArguments('<|"|>'),
  markers: ['<|tool_call>', '<tool_call|>', '<|"|>'],
  stops: ['<|tool_response>'],
});

/** FunctionGemma: the same between other marks. */
export const functionGemma = sectionForm({
  name: 'functiongemma',
  isIn: (template) => template.includes('<start_function_call>') && template.includes('<escape>'),
  trigger: '<start_function_call>',
  between: '',
  begins: '<start_function_call>call:',
  named: [],
  ends: ['<end_function_call>'],
  arguments: bareArguments('<escape>'),
  markers: ['<start_function_call>', '<end_function_call>', '<escape>'],
  stops: ['<start_function_response>'],
});
