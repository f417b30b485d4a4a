// The fields of the Amazon States Language: which ones a state of each type has, and why some of them have no equivalent. A field that is in neither
// list is reported, so that none is dropped silently.

const COMMON = ["Type", "Comment", "Next", "End", "InputPath", "OutputPath", "QueryLanguage"];
const RESULT = ["ResultPath", "ResultSelector", "Parameters"];
const ERRORS = ["Retry", "Catch"];

const STATES: Readonly<Record<string, readonly string[]>> = {
  Pass: [...COMMON, "Result", "ResultPath", "Parameters"],
  Task: [
    ...[...COMMON, ...RESULT, ...ERRORS, "Resource", "TimeoutSeconds", "TimeoutSecondsPath"],
    ...["HeartbeatSeconds", "HeartbeatSecondsPath"],
  ],
  Choice: ["Type", "Comment", "InputPath", "OutputPath", "QueryLanguage", "Choices", "Default"],
  Wait: [...COMMON, "Seconds", "SecondsPath", "Timestamp", "TimestampPath"],
  Succeed: ["Type", "Comment", "InputPath", "OutputPath", "QueryLanguage"],
  Fail: ["Type", "Comment", "Error", "ErrorPath", "Cause", "CausePath", "QueryLanguage"],
  Parallel: [...COMMON, ...RESULT, ...ERRORS, "Branches"],
  Map: [
    ...[...COMMON, ...RESULT, ...ERRORS, "ItemsPath", "ItemSelector", "ItemProcessor", "Iterator"],
    ...["MaxConcurrency", "MaxConcurrencyPath", "Label"],
  ],
};

const TOLERATED = "a foreach stores an error where an item failed, and a Map's result has another form then";
const OF_JSONATA = "it is a field of JSONata states, whose expressions are programs in another language than CEL";

/** Why a field has no equivalent, wherever it is. */
const REFUSED: Readonly<Record<string, string>> = {
  Credentials: "a step has no role of IAM: the worker has its own credentials",
  Assign: "what a variable is assigned from, and when, differs between the states of JSONPath",
  Arguments: OF_JSONATA,
  Output: OF_JSONATA,
  Items: OF_JSONATA,
  Condition: OF_JSONATA,
  ItemReader: "the items are read from S3, and a step reads no files: let an action give the list",
  ItemBatcher: "a foreach takes one item at a time: let an action give a list of lists",
  ResultWriter: "the results are written to S3, and a step writes no files",
  ToleratedFailureCount: TOLERATED,
  ToleratedFailureCountPath: TOLERATED,
  ToleratedFailurePercentage: TOLERATED,
  ToleratedFailurePercentagePath: TOLERATED,
};

export const FIELDS = {
  machine: ["Comment", "StartAt", "States", "Version", "TimeoutSeconds", "QueryLanguage"],
  branch: ["Comment", "StartAt", "States", "QueryLanguage"],
  processor: ["Comment", "StartAt", "States", "ProcessorConfig", "QueryLanguage"],
  states: STATES,
  refused: REFUSED,
};
