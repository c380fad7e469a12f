// Made by build_tools/web_sources.py; do not edit.

export type Cell = string | number | boolean | null;

/** A line of a table; its columns stand in the tool's documentation. */
export type Row = Record<string, Cell | Record<string, Cell> | Cell[]>;

export interface AccountEntry {
  host: string;
  device: number | null;
  owner: string;
  category: string;
  ms: number;
  percent: number;
  between_ms: number | null;
  parts: AccountPart[] | null;
}

export interface AccountPart {
  name: string | null;
  detail: string | null;
  place: string;
  function: string | null;
  file: string | null;
  line: number | null;
  ms: number;
}

export interface Action {
  cause: string;
  framework: string;
  text: string;
  env: string | null;
  code: string | null;
  recorder: "any" | "nsight" | "framework";
  id: string;
  models: ("queue" | "overlap" | "rarer" | "removed" | "pause" | "replay" | "bound" | "inquiry")[];
}

export interface AnnotationDetail {
  name: string;
  call_count: number;
  host_us: number;
  device_us: number | null;
  launches: number | null;
  calls: Row[];
  by_step: Row[] | null;
  ops: Row[] | null;
  kernels: Row[] | null;
}

export interface AnnotationDetailResult {
  view: string;
  scope: Row[];
  graph: Row[];
  op: Row[];
  code: Row[];
  source: Row[];
  annotation: Row[];
  unannotated_device_us: number | null;
  total_us: number;
  flops_known_percent: number | null;
  settings: Settings;
  step: number | null;
  steps: Record<string, number[]> | null;
  detail: AnnotationDetail;
}

export interface AnyDevice {
  breakdown_ms: Record<string, number>;
  device_execution_percent: number | null;
}

export interface BatchSize {
  batch_size: number;
  requests: number;
  latency_ms: Latency;
  per_item_ms: number | null;
}

export interface BetweenSteps {
  outside_markers: boolean;
  wait_ms: number;
  gaps: number;
  gaps_with_wait: number;
}

export interface Bottleneck {
  type: string;
  long_name: string;
  self_us: number;
  critical_time_us: number;
}

export interface CandidateEntry {
  source: string;
  what: string;
  n: number;
  period_ms: number | null;
  coverage: number | null;
  cv: number | null;
  confidence: number;
  accepted: boolean;
  why_not: string;
}

export interface Category {
  id: number;
  category: string;
  name: string;
}

export interface Cause {
  dominant: "transfer" | "utilisation" | "compute" | "mixed" | null;
  transfer_percent: number | null;
  utilisation_percent: number | null;
  compute_percent: number | null;
  total_us: number | null;
  transfer_us: number | null;
  waiting_us: number | null;
  small_grid_us: number | null;
  low_occupancy_us: number | null;
  compute_us: number | null;
  unknown_us: number | null;
  untested_us: number | null;
}

export interface CauseShare {
  cause: string;
  share_percent: number;
}

export interface Change {
  name: string;
  category: string | null;
  scope: string | null;
  side: "host" | "device" | null;
  kind: "appeared" | "vanished" | "slowed" | "quickened" | "same";
  base_ms: number | null;
  new_ms: number | null;
  change_ms: number;
  share_percent: number | null;
  low_ms: number | null;
  high_ms: number | null;
  base_runs: number | null;
  new_runs: number | null;
}

export interface Check {
  topic: "devices" | "steps" | "batch" | "model" | "kernels" | "ops";
  status: "same" | "differs" | "unknown";
  overlap: number | null;
  base: string | null;
  new: string | null;
  by: string | null;
  reason: string | null;
}

export interface CheckedStage {
  stage: number;
  title: string;
  counts: Record<string, number>;
  notes: number;
  unconfirmed: number;
  findings: string[];
}

export interface Clock {
  host: string;
  source: string;
  shift_us: number | null;
  offset_us: number | null;
  doubt_us: number | null;
  bound_us: number | null;
  samples: number;
}

export interface Collective {
  kind: string;
  count: number;
  count_per_step: number | null;
  mean_us: number;
  min_over_devices_us: number;
  exposed_us: number;
  bytes: number | null;
  gib_per_s: number | null;
  bus_gib_per_s: number | null;
  expected_us: number | null;
}

export interface Comparison {
  base: RunOfTwo;
  new: RunOfTwo;
  per: "step" | "batch";
  parity: Parity;
  step_time: StepTimeChange | null;
  breakdown: Change[] | null;
  synthetic_input: SyntheticInput | null;
  owners: Change[] | null;
  ops: Change[] | null;
  kernels: Change[] | null;
  findings: FindingChange[];
  promises: Outcome[];
  missing: Missing[];
}

export interface ConsumerWait {
  total_ms: number;
  per_step_ms: number;
  exposed_ms: number;
  exposed_per_step_ms: number;
  hidden_ms: number | null;
  waits: number;
  slow_waits: number;
  longest_ms: number;
}

export interface Cut {
  table: string;
  rows: number;
  given: number;
}

export interface Device {
  host: string;
  device: number;
  type: string;
  name: string | null;
  compute_capability: string | null;
  activities: number;
}

export interface DeviceEntry {
  host: string;
  device: number;
  type: string | null;
  cores: number | null;
  compute_capability: string | null;
  memory_bytes: number | null;
  memory_bandwidth_bytes_per_s: number | null;
  used: boolean;
}

export interface Doubt {
  host: string | null;
  kind: string;
  severity: string;
  scope: string;
  message: string;
  count: number | null;
  remedy: string | null;
}

export interface Eager {
  host_percent: number | null;
  device_percent: number | null;
}

export interface Edge {
  consumer: string;
  producer: string;
}

export interface Envelope {
  schema: number;
  tool: string;
  profile: Profile;
  unavailable: Unavailable | null;
  missing: Missing[];
  quality: Doubt[];
  inputs: Record<string, unknown>;
  data: unknown | null;
}

export interface Evidence {
  host: string;
  device: number | null;
  track: string | null;
  start_ps: number | string;
  end_ps: number | string;
  ops: string[];
  frame: string | null;
}

export interface Fact {
  name: string;
  value: number | null;
  unit: string;
  note: string | null;
}

export interface Finding {
  id: string;
  title: string;
  stage: number;
  calibrated: boolean;
  status: "fail" | "pass" | "cannot_tell" | "not_applicable";
  severity: "info" | "warn" | "critical";
  confidence: number;
  value: number | null;
  unit: string;
  share_percent: number | null;
  owners: string[];
  topics: string[];
  place: "inside" | "between" | "any" | null;
  pattern: Pattern | null;
  ms_per_step: number | null;
  threshold: Threshold | null;
  steps_hit: number | null;
  steps_clean: number | null;
  devices: string[];
  causes: CauseShare[];
  parts: Part[];
  workers: Part[];
  because: string[];
  facts: Fact[];
  evidence: Evidence[];
  inputs: string[];
  unavailable: Unavailable | null;
  note: string | null;
  confirm: string | null;
  refute: string | null;
  saving_ms: Saving | null;
  predictions: Prediction[];
  floors: string[];
  actions: Action[];
  explained_by: string[];
  after_stage: number | null;
}

export interface FindingChange {
  id: string;
  title: string;
  change: "gone" | "came" | "stayed" | "unknown";
  base: "fail" | "pass" | "cannot_tell" | "not_applicable" | null;
  new: "fail" | "pass" | "cannot_tell" | "not_applicable" | null;
  severity: "info" | "warn" | "critical";
  base_ms: number | null;
  new_ms: number | null;
}

export interface FrameworkOpStatsResult {
  rows: Row[];
  pies: Pies;
  device_idle_us: number | null;
  host_idle_us: number | null;
  launch_latency_us: number;
  launch_latency_samples: number;
}

export interface FunctionMode {
  name: string;
  mode: string;
  calls: number;
  self_time_us: number;
  percent: number | null;
  tracing_count: number | null;
}

export interface Functions {
  expensive_percent: number | null;
  calls: FunctionMode[];
}

export interface Graph {
  host: string;
  pipeline: string;
  rank: number;
  start_us: number;
  latency_us: number;
  suggestion_kind: string | null;
  suggestion: string | null;
  nodes: Node[];
  edges: Edge[];
}

export interface Headline {
  text: string;
  owner: string | null;
  percent: number | null;
  finding: string | null;
}

export interface HostEntry {
  host: string;
  hostname: string | null;
  file: string;
  format: string;
  file_bytes: number;
  start_unix_ns: number | null | string;
  duration_ms: number | null;
  events: number | null;
  host_tracer_level: number | null;
  device_tracer_level: number | null;
  python_tracer_level: number | null;
  grouped: boolean;
}

export interface HostInput {
  host: string;
  verdict: string;
  input_percent: number | null;
  input_at_most_percent: number | null;
  input_wait_percent: number | null;
  input_transfer_percent: number | null;
  largest_category: string | null;
  step_count: number;
}

export interface HostRequests {
  host: string;
  requests: number;
  threads: number;
  latency_ms: Latency;
  throughput_per_s: number | null;
  concurrency: number | null;
}

export interface HostSummary {
  host: string;
  step_detection: StepDetection;
  summary: StepSummary;
}

export interface InferenceProfileResult {
  requests: Row[];
  request_count: number;
  latency_ms: Latency;
  by_batch_size: BatchSize[];
  throughput_per_s: number | null;
  items_per_s: number | null;
  concurrency: number | null;
  breakdown_ms: Record<string, number> | null;
  breakdown_detail_ms: Record<string, number> | null;
  slow: SlowRequests | null;
  by_host: HostRequests[];
}

export interface InputPipelineResult {
  verdict: string;
  text: string;
  window: string;
  compat: string;
  compat_verdict: string | null;
  input_percent: number | null;
  input_at_most_percent: number | null;
  input_wait_percent: number | null;
  input_transfer_percent: number | null;
  largest_category: string | null;
  bottleneck_iterator: string | null;
  step_time_ms: Statistics;
  device_step_time_ms: Statistics | null;
  input_percent_stats: Statistics;
  steps: InputStep[];
  devices: Row[];
  host_breakdown_us: Record<string, number | null>;
  host_breakdown_percent: Record<string, number | null>;
  consumer_wait: ConsumerWait | null;
  between_steps: BetweenSteps | null;
  input_ops: Row[];
  worker_functions: Row[];
  next_steps: NextStep[];
  hosts_matched_by: string;
  by_host: HostInput[];
}

export interface InputStep {
  step: number | null;
  name: string | null;
  host: string;
  batches: number | null;
  start_ms: number;
  duration_ms: number;
  device_step_time_ms: number | null;
  flags: string[];
  breakdown_ms: Record<string, number>;
  device_working_ms: number | null;
  idle_input_ms: number | null;
  gap_ms: number | null;
  device_busy_ms: number | null;
  device_busy_least_ms: number | null;
  device_busy_most_ms: number | null;
  counted: boolean;
  input_ms: number | null;
  input_wait_ms: number | null;
  input_transfer_ms: number | null;
  input_percent_avg: number | null;
  input_percent_min: number | null;
  input_percent_max: number | null;
  consumer_wait_ms: number | null;
}

export interface KernelStatsResult {
  rows: Row[];
  by_pair: Row[];
  by_kernel: Row[];
  pie: Row[];
  measured: Row[];
  nvidia_rules: Row[];
  kernel_count: number;
  kernel_time_us: number;
  time_us_by_precision: Record<string, number>;
}

export interface Latency {
  mean: number;
  std: number | null;
  min: number;
  p50: number;
  p75: number;
  p90: number;
  p95: number;
  p99: number;
  p999: number;
  max: number;
}

export interface Memory {
  allocations: number;
  deallocations: number;
  unmatched_deallocations: number | null;
  address_reuse: number | null;
  capacity_bytes: number | null;
  peak_heap_lifetime_bytes: number | null;
  peak: MemoryPeak | null;
  level: string;
  timeline: Row[];
  breakdown: Row[];
  lines: Row[];
  breakdown_time_ms: number | null;
  steps: Row[];
  growth_bytes_per_step: Statistics;
  warnings: MemoryWarning[];
}

export interface MemoryPeak {
  time_ms: number;
  memory_in_use_bytes: number;
  stack_bytes: number | null;
  heap_bytes: number;
  free_bytes: number | null;
  fragmentation: number | null;
  step_id: number | null;
}

export interface MemoryProfileResult {
  rows: Row[];
  memories: Record<string, Memory>;
}

export interface MemoryWarning {
  kind: string;
  severity: string;
  value: number;
  threshold: number;
}

export interface Missing {
  field: string;
  code: string;
  reason: string;
  remedy: string;
}

export interface ModelViewsResult {
  view: string;
  scope: Row[];
  graph: Row[];
  op: Row[];
  code: Row[];
  source: Row[];
  annotation: Row[];
  unannotated_device_us: number | null;
  total_us: number;
  flops_known_percent: number | null;
  settings: Settings;
  step: number | null;
  steps: Record<string, number[]> | null;
}

export interface NextStep {
  category: string;
  self_time_us: number | null;
  self_time_percent: number | null;
  advice: string;
}

export interface Node {
  id: string;
  name: string;
  type: string;
  start_us: number;
  total_us: number;
  self_us: number;
  calls: number;
  critical: boolean;
  bottleneck: boolean;
  critical_time_us: number;
  transparent: boolean;
  asynchronous: boolean;
  parameters: Record<string, boolean | number | number | string>;
}

export interface OpDetailResult {
  rows: Row[];
  pies: Pies;
  device_idle_us: number | null;
  host_idle_us: number | null;
  launch_latency_us: number;
  launch_latency_samples: number;
  selected: string;
  call_count: number | null;
  calls: Row[];
  kernels: Row[] | null;
  copies: Row[] | null;
  launches: Row[] | null;
  shapes: Row[] | null;
  share: StepShare;
  cause: Cause;
}

export interface Outcome {
  findings: string[];
  titles: string[];
  low_ms: number;
  high_ms: number;
  verdict: "inside" | "below" | "above" | "untried" | "joint" | "not_comparable";
  measured_ms: number | null;
  measured_low_ms: number | null;
  measured_high_ms: number | null;
  reason: string | null;
}

export interface OverviewPageResult {
  window: string;
  compat: string;
  steps: Step[];
  step_count: number;
  left_out: Record<string, number>;
  step_time_ms: Statistics;
  host_period_ms: Statistics | null;
  batch_time_ms: number | null;
  device_step_time_ms: Statistics | null;
  breakdown_ms: Record<string, number>;
  breakdown_std_ms: Record<string, number | null>;
  breakdown_percent: Record<string, number | null>;
  breakdown_detail_ms: Record<string, number>;
  account: AccountEntry[];
  overlapped_ms: Record<string, number> | null;
  device_execution_percent: number | null;
  kernel_launch_percent: number | null;
  input_percent: number | null;
  any_device: AnyDevice | null;
  step_detection: StepDetection;
  precision: PrecisionShares | null;
  top_ops: TopOp[] | null;
  phases_ms: Record<string, number | null> | null;
  environment: RunEnvironment;
  op_placement: Placement | null;
  eager: Eager | null;
  collectives: Collective[] | null;
  tf_function: Functions | null;
  is_training: boolean | null;
  bottleneck: string;
  hosts_matched_by: string;
  by_host: HostSummary[];
}

export interface Parameter {
  name: string;
  value: number;
}

export interface Parity {
  checks: Check[];
  vouched: boolean;
  unavailable: Unavailable | null;
}

export interface Part {
  name: string;
  detail: string | null;
  function: string | null;
  file: string | null;
  line: number | null;
  lines: [number, number] | null;
  loop: boolean;
  thread: string | null;
  share_percent: number;
  inclusive: boolean;
}

export interface Pattern {
  kind: "every" | "bursts" | "once";
  steps_hit: number;
  steps: number;
  shortest_ms: number | null;
  longest_ms: number;
  mean_ms: [number, number] | null;
}

export interface Pie {
  without_idle: Row[];
  with_idle: Row[];
}

export interface Pies {
  host_by_op: Pie | null;
  host_by_type: Pie | null;
  device_by_op: Pie | null;
  device_by_type: Pie | null;
}

export interface Placement {
  host_op_percent: number | null;
  device_op_percent: number | null;
  host_self_time_percent: number | null;
  device_self_time_percent: number | null;
  host_executions: number | null;
  device_executions: number | null;
  dataset_executions: number | null;
}

export interface PodStep {
  start_skew_ms: number | null;
  start_skew_doubt_ms: number | null;
  imbalance: number | null;
  concurrency: Record<string, number>;
  slowest: WorkerName | null;
  slowest_by: string | null;
  fastest: WorkerName | null;
  step: number | null;
  name: string | null;
  counted: boolean;
  complete: boolean;
  hosts: string[];
  workers: Worker[];
}

export interface PodViewerResult {
  workers: WorkerSummary[];
  steps: PodStep[];
  slowest: SlowestWorker | null;
  imbalance: number | null;
  start_skew_ms: number | null;
  hosts_matched_by: string;
  in_lock_step: boolean;
  processes: number | null;
  clocks: Clock[];
  collectives_matched: number;
  collectives_unmatched: number;
  unused_devices: Record<string, number[]>;
  categories: Category[];
}

export interface PrecisionShares {
  compute_16bit_percent: number | null;
  compute_32bit_percent: number | null;
  compute_tf32_percent: number | null;
  compute_64bit_percent: number | null;
  default_evidence_percent: number;
  kernels_16bit_count: number | null;
  kernels_total_count: number;
}

export interface Prediction {
  action: string;
  parameter: Parameter | null;
  step_ms: StepTime;
  model: "queue" | "overlap" | "rarer" | "removed" | "pause" | "replay" | "bound" | "inquiry";
}

export interface Profile {
  run: string;
  hosts: string[];
  devices: Device[];
  ranks: Record<string, number>;
  processes: number | null;
}

export interface QualityNote {
  kind: string;
  severity: string;
  scope: string;
  message: string;
  count: number | null;
  remedy: string | null;
}

export interface RooflineModelResult {
  ops: Row[];
  kernels: Row[];
  roofs: Row[];
  ops_on: string | null;
  unknown_ops_percent: number | null;
  unknown_kernels_percent: number | null;
  measured_kernels: number;
}

export interface RunEnvironment {
  hosts: number;
  tasks: number;
  hostnames: string[];
  device_type: string | null;
  device_count: number | null;
  used_device_count: number | null;
  devices: DeviceEntry[];
  captures: HostEntry[];
  dropped_events: number | null;
}

export interface RunOfTwo {
  run: string;
  hosts: string[];
  steps: number;
  mean_ms: number | null;
  median_ms: number | null;
  recording_ms: number | null;
  columns: StepColumns | null;
}

export interface Saving {
  low: number;
  high: number;
  basis: "replay" | "bound";
  identity_error_percent: number | null;
  open_above: boolean;
}

export interface Settings {
  max_depth: number;
  min_micros: number;
  min_accelerator_micros: number;
  min_cpu_micros: number;
  min_bytes: number;
  min_params: number;
  min_float_ops: number;
  min_occurrence: number;
  order_by: "name" | "depth" | "micros" | "accelerator_micros" | "cpu_micros" | "bytes" | "params" | "float_ops" | "occurrence";
  account_type_regexes: string[];
  start_name_regexes: string[];
  trim_name_regexes: string[];
  show_name_regexes: string[];
  hide_name_regexes: string[];
  account_displayed_op_only: boolean;
  show_trainable_variables: boolean;
  select: string[];
  trainable_only: boolean;
}

export interface SlowRequests {
  threshold_ms: number;
  requests: number;
  latency_ms: number;
  typical_ms: number;
  breakdown_ms: Record<string, number>;
  excess_ms: Record<string, number>;
  waited_for: string | null;
}

export interface SlowestWorker {
  host: string;
  device: number | null;
  by: string;
  steps: number;
  of_steps: number;
  waited_for_ms: number | null;
  cause: string | null;
  excess_ms: Record<string, number>;
}

export interface Statistics {
  mean: number | null;
  std: number | null;
  min: number | null;
  max: number | null;
  median: number | null;
  p95: number | null;
}

export interface Step {
  step: number | null;
  name: string | null;
  host: string;
  batches: number | null;
  start_ms: number;
  duration_ms: number;
  device_step_time_ms: number | null;
  flags: string[];
  breakdown_ms: Record<string, number>;
  device_working_ms: number | null;
  idle_input_ms: number | null;
  gap_ms: number | null;
  device_busy_ms: number | null;
  device_busy_least_ms: number | null;
  device_busy_most_ms: number | null;
}

export interface StepColumns {
  steps_per_column: number;
  breakdown_ms: Record<string, number[]>;
}

export interface StepDetection {
  source: string | null;
  confidence: number | null;
  inferred: boolean;
  anchor: string;
  candidates: CandidateEntry[];
}

export interface StepShare {
  steps: number | null;
  device_percent: number | null;
  exposed_percent: number | null;
  host_percent: number | null;
}

export interface StepSummary {
  step_count: number;
  row_count: number;
  left_out: Record<string, number>;
  step_time_ms: Statistics;
  host_period_ms: Statistics | null;
  batch_time_ms: number | null;
  device_step_time_ms: Statistics | null;
  breakdown_ms: Record<string, number>;
  breakdown_std_ms: Record<string, number | null>;
  breakdown_percent: Record<string, number | null>;
  breakdown_detail_ms: Record<string, number>;
  overlapped_ms: Record<string, number> | null;
  device_execution_percent: number | null;
  kernel_launch_percent: number | null;
  input_percent: number | null;
  idle_percent: number | null;
  any_device: AnyDevice | null;
  bottleneck: string;
}

export interface StepTime {
  low: number;
  mid: number | null;
  high: number | null;
}

export interface StepTimeChange {
  base_ms: number;
  new_ms: number;
  change_ms: number;
  low_ms: number;
  high_ms: number;
  change_percent: number;
  verdict: "faster" | "slower" | "noise";
}

export interface Summary {
  verdict: string;
  text: string;
  input_bound: boolean | null;
  host: string | null;
  pipeline: string | null;
  max_latency_us: number | null;
  bottleneck: Bottleneck | null;
  suggestion_kind: string | null;
  suggestion: string | null;
  exposed_wait_ms_per_step: number | null;
  exposed_wait_percent: number | null;
  limits_steps: boolean | null;
}

export interface SyntheticInput {
  status: "fail" | "pass" | "cannot_tell";
  severity: "info" | "warn" | "critical";
  share_percent: number | null;
  threshold: Threshold | null;
  saving_ms: Saving | null;
  copies_ms: number | null;
  unavailable: Unavailable | null;
}

export interface TfDataBottleneckAnalysisResult {
  summary: Summary;
  bottlenecks: Row[];
  pipelines: Row[];
  waits: Row[];
  graphs: Graph[];
  stages: Row[];
}

export interface Threshold {
  value: number;
  unit: "percent" | "ps" | "bytes" | "count" | "ratio";
  source: string;
  meaning: string;
}

export interface TopOp {
  rank: number;
  host_or_device: string;
  name: string;
  category: string | null;
  self_time_us: number;
  self_time_percent: number;
  cumulative_percent: number;
  occurrences: number | null;
  flop_rate_gflops: number | null;
  tensor_core_eligible: boolean | null;
  tensor_core_used: boolean | null;
  hosts: string[];
}

export interface TraceViewerResult {
  tracks: Row[];
  sections: Row[];
  events: number;
  drawn: number;
  folded: number;
  hidden: number;
  derived_spans: number;
  flows: number | null;
  without_time: number;
  one_clock: boolean | null;
  start_ms: number | null;
  end_ms: number | null;
}

export interface Unavailable {
  code: string;
  reason: string;
  remedy: string;
}

export interface Worker {
  host: string;
  device: number | null;
  chip_id: number | null;
  node_id: number;
  step: number | null;
  total_ms: number;
  device_step_time_ms: number | null;
  start_ms: number;
  aligned_start_ms: number | null;
  flags: string[];
  breakdown_ms: Record<string, number>;
  breakdown_detail_ms: Record<string, number>;
  bottleneck: string;
  device_work_ms: number | null;
  collective_wait_ms: number | null;
  collective_transfer_ms: number | null;
  collective_untold_ms: number | null;
  waited_for_ms: number | null;
}

export interface WorkerName {
  host: string;
  device: number | null;
}

export interface WorkerSummary {
  host: string;
  device: number | null;
  steps: number;
  slowest_in: number;
  total_ms: number;
  bottleneck: string;
  waited_for_ms: number | null;
  collective_wait_ms: number | null;
  collective_transfer_ms: number | null;
  collective_untold_ms: number | null;
  device_work_ms: number | null;
  device_step_time_ms: number | null;
  breakdown_ms: Record<string, number>;
}

export interface Results {
  overview_page: OverviewPageResult;
  input_pipeline_analyzer: InputPipelineResult;
  framework_op_stats: FrameworkOpStatsResult;
  kernel_stats: KernelStatsResult;
  roofline_model: RooflineModelResult;
  memory_profile: MemoryProfileResult;
  pod_viewer: PodViewerResult;
  trace_viewer: TraceViewerResult;
  tf_data_bottleneck_analysis: TfDataBottleneckAnalysisResult;
  inference_profile: InferenceProfileResult;
  model_views: ModelViewsResult;
}
