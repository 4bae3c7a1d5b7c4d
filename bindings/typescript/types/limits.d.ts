/**
 * What `limits` of a request says. The daemon checks the ranges.
 * @param {Limits} given
 * @returns {Record<string, number>}
 * @internal
 */
export function limitsFor(given: Limits): Record<string, number>;
/**
 * Limits by name; see docs/reference/configuration.md.
 */
export type Limits = { [name in keyof typeof UNITS]?: number | string; };
declare namespace UNITS {
    let timeout: string;
    let cpus: string;
    let memory: string;
    let processes: string;
    let tmp_size: string;
    let workspace_size: string;
    let workspace_files: string;
    let file_size: string;
    let open_files: string;
    let output: string;
}
export {};
