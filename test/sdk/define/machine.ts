// What the tests of definitions need of the service's machine. It is no part of the package.
export { compileWorkflow } from "../../../machines/index.js";
export { STEP_TYPES } from "../../../machines/steps/index.js";
