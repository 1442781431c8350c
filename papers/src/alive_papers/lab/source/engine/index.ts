// The engine: everything that needs no page. The same script runs in the page, in its worker and in tests.

export * from "./activations";
export * from "./census";
export * from "./chance";
export * from "./code";
export * from "./data";
export * from "./link";
export * from "./presets";
export * from "./run";
export * from "./settings";
export * from "./worker";
