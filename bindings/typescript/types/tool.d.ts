/** @import {Result} from "./result.js" */
export const DESCRIPTION: string;
export namespace CODE {
    let type: "object";
    namespace properties {
        namespace code {
            let type_1: "string";
            export { type_1 as type };
            export let description: string;
        }
    }
    let required: ["code"];
    let additionalProperties: false;
}
export function textForModel(result: Result): string;
import type { Result } from "./result.js";
