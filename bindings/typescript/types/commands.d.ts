import type { Methods } from "../types/wire.d.ts";
import type { Limits } from "./limits.js";
export type Diff = Methods["diff"]["answer"] & {
    files: {
        unified?: string | null;
    }[];
};
export type Exported = Methods["export"]["answer"];
export type ProjectSide = {
    type: "file" | "link" | "folder" | "other";
    /**
     * of a file
     */
    executable?: boolean;
    /**
     * bytes of a file
     */
    size?: number;
    /**
     * of a file
     */
    sha256?: string;
    /**
     * of a link
     */
    target?: string;
};
export type ProjectDiff = {
    /**
     * id
     */
    session: string;
    /**
     * its folder
     */
    project: string;
    /**
     * of the patch
     */
    sha256: string;
    /**
     * number of cache files left out
     */
    left_out_caches: number;
    /**
     *   refused: why apply() does not write the file; must_be_named: why apply() writes it only with {allow: [path]}
     */
    files: {
        path: string;
        base: ProjectSide | null;
        now: ProjectSide | null;
        unified?: string | null;
        refused?: string;
        must_be_named?: string;
    }[];
};
export type ApplyOptions = {
    /**
     * only these files, or these folders with their contents
     */
    paths?: string[];
    /**
     * files that are applied although tools run them automatically
     */
    allow?: string[];
    /**
     * apply without a verdict that the patch is ready; this is recorded
     */
    unverified?: boolean;
    /**
     * a person has read the patch: apply it at high or critical risk; this is recorded
     */
    reviewed?: boolean;
    /**
     * apply even if files changed in the project after the session began
     */
    projectMoved?: boolean;
};
export type ImportOptions = {
    /**
     * the name in the file if not given
     */
    name?: string;
    /**
     * as of a new session
     */
    tier?: string;
    /**
     * override those of the file, as in {memory: "1g"}; the others are lowered to the limits configured for new sessions
     */
    limits?: Limits;
    /**
     * make the session without a control that this host lacks
     */
    allowDegraded?: boolean;
    /**
     * refuse if a control is approximate
     */
    requireExact?: boolean;
};
export type Applied = {
    session: string;
    project: string;
    sha256: string;
    applied: string[];
    verdict?: string;
    unverified: boolean;
    [more: string]: any;
};
