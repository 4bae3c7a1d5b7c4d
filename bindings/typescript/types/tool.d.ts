import type { Result } from "./result.js";
/** @import {Result} from "./result.js" */
export declare const DESCRIPTION: string;
/** Arguments, as JSON Schema. */
export declare const CODE: {
    type: "object";
    properties: {
        code: {
            type: "string";
            description: string;
        };
    };
    required: ["code"];
    additionalProperties: false;
};
/** @param {Result} result */
export declare const textForModel: (result: Result) => string;
