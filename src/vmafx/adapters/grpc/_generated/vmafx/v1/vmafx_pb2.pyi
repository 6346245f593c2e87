from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PixelFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PIXEL_FORMAT_UNSPECIFIED: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV420P: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV422P: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV444P: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV420P10LE: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV422P10LE: _ClassVar[PixelFormat]
    PIXEL_FORMAT_YUV444P10LE: _ClassVar[PixelFormat]
PIXEL_FORMAT_UNSPECIFIED: PixelFormat
PIXEL_FORMAT_YUV420P: PixelFormat
PIXEL_FORMAT_YUV422P: PixelFormat
PIXEL_FORMAT_YUV444P: PixelFormat
PIXEL_FORMAT_YUV420P10LE: PixelFormat
PIXEL_FORMAT_YUV422P10LE: PixelFormat
PIXEL_FORMAT_YUV444P10LE: PixelFormat

class ScoreRequest(_message.Message):
    __slots__ = ("reference", "distorted", "model", "options")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DISTORTED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    reference: str
    distorted: str
    model: str
    options: ScoreOptions
    def __init__(self, reference: _Optional[str] = ..., distorted: _Optional[str] = ..., model: _Optional[str] = ..., options: _Optional[_Union[ScoreOptions, _Mapping[str, object]]] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("score", "features", "provenance")
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    score: float
    features: _containers.ScalarMap[str, float]
    provenance: ScoreProvenance
    def __init__(self, score: _Optional[float] = ..., features: _Optional[_Mapping[str, float]] = ..., provenance: _Optional[_Union[ScoreProvenance, _Mapping[str, object]]] = ...) -> None: ...

class FeatureBackend(_message.Message):
    __slots__ = ("extractor", "backend")
    EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    extractor: str
    backend: str
    def __init__(self, extractor: _Optional[str] = ..., backend: _Optional[str] = ...) -> None: ...

class ScoreProvenance(_message.Message):
    __slots__ = ("library", "model", "model_sha256", "backend_used", "feature_backends", "precision")
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    BACKEND_USED_FIELD_NUMBER: _ClassVar[int]
    FEATURE_BACKENDS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    library: Provenance
    model: str
    model_sha256: str
    backend_used: str
    feature_backends: _containers.RepeatedCompositeFieldContainer[FeatureBackend]
    precision: str
    def __init__(self, library: _Optional[_Union[Provenance, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., backend_used: _Optional[str] = ..., feature_backends: _Optional[_Iterable[_Union[FeatureBackend, _Mapping[str, object]]]] = ..., precision: _Optional[str] = ...) -> None: ...

class StreamConfig(_message.Message):
    __slots__ = ("width", "height", "pixel_format", "model", "frame_count_hint")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    PIXEL_FORMAT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FRAME_COUNT_HINT_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    pixel_format: PixelFormat
    model: str
    frame_count_hint: int
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., pixel_format: _Optional[_Union[PixelFormat, str]] = ..., model: _Optional[str] = ..., frame_count_hint: _Optional[int] = ...) -> None: ...

class FramePair(_message.Message):
    __slots__ = ("frame_index", "raw_reference", "raw_distorted")
    FRAME_INDEX_FIELD_NUMBER: _ClassVar[int]
    RAW_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    RAW_DISTORTED_FIELD_NUMBER: _ClassVar[int]
    frame_index: int
    raw_reference: bytes
    raw_distorted: bytes
    def __init__(self, frame_index: _Optional[int] = ..., raw_reference: _Optional[bytes] = ..., raw_distorted: _Optional[bytes] = ...) -> None: ...

class ScoreStreamRequest(_message.Message):
    __slots__ = ("config", "frame_pair")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    FRAME_PAIR_FIELD_NUMBER: _ClassVar[int]
    config: StreamConfig
    frame_pair: FramePair
    def __init__(self, config: _Optional[_Union[StreamConfig, _Mapping[str, object]]] = ..., frame_pair: _Optional[_Union[FramePair, _Mapping[str, object]]] = ...) -> None: ...

class FrameScore(_message.Message):
    __slots__ = ("frame_index", "score", "features")
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    FRAME_INDEX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    frame_index: int
    score: float
    features: _containers.ScalarMap[str, float]
    def __init__(self, frame_index: _Optional[int] = ..., score: _Optional[float] = ..., features: _Optional[_Mapping[str, float]] = ...) -> None: ...

class AggregateScore(_message.Message):
    __slots__ = ("frames_processed", "score", "features", "elapsed_ms", "provenance")
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    FRAMES_PROCESSED_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    frames_processed: int
    score: float
    features: _containers.ScalarMap[str, float]
    elapsed_ms: int
    provenance: ScoreProvenance
    def __init__(self, frames_processed: _Optional[int] = ..., score: _Optional[float] = ..., features: _Optional[_Mapping[str, float]] = ..., elapsed_ms: _Optional[int] = ..., provenance: _Optional[_Union[ScoreProvenance, _Mapping[str, object]]] = ...) -> None: ...

class ScoreStreamResponse(_message.Message):
    __slots__ = ("frame_score", "aggregate")
    FRAME_SCORE_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    frame_score: FrameScore
    aggregate: AggregateScore
    def __init__(self, frame_score: _Optional[_Union[FrameScore, _Mapping[str, object]]] = ..., aggregate: _Optional[_Union[AggregateScore, _Mapping[str, object]]] = ...) -> None: ...

class HealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthResponse(_message.Message):
    __slots__ = ("ok", "message")
    OK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    message: str
    def __init__(self, ok: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ScoreOptions(_message.Message):
    __slots__ = ("width", "height", "pixel_format", "bitdepth", "disable_clip", "enable_transform", "backend", "device", "threads", "subsample", "frame_cnt", "frame_skip_ref", "frame_skip_dist", "no_prediction", "cpumask", "gpumask", "feature", "aom_ctc", "nflx_ctc", "tiny_model", "tiny_device", "tiny_threads", "tiny_fp16", "tiny_model_verify", "tiny_codec", "tiny_preset", "tiny_crf", "tiny_resize", "no_reference", "precision", "view_distance", "display_height", "target_width", "target_height", "target_scaling")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    PIXEL_FORMAT_FIELD_NUMBER: _ClassVar[int]
    BITDEPTH_FIELD_NUMBER: _ClassVar[int]
    DISABLE_CLIP_FIELD_NUMBER: _ClassVar[int]
    ENABLE_TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    SUBSAMPLE_FIELD_NUMBER: _ClassVar[int]
    FRAME_CNT_FIELD_NUMBER: _ClassVar[int]
    FRAME_SKIP_REF_FIELD_NUMBER: _ClassVar[int]
    FRAME_SKIP_DIST_FIELD_NUMBER: _ClassVar[int]
    NO_PREDICTION_FIELD_NUMBER: _ClassVar[int]
    CPUMASK_FIELD_NUMBER: _ClassVar[int]
    GPUMASK_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    AOM_CTC_FIELD_NUMBER: _ClassVar[int]
    NFLX_CTC_FIELD_NUMBER: _ClassVar[int]
    TINY_MODEL_FIELD_NUMBER: _ClassVar[int]
    TINY_DEVICE_FIELD_NUMBER: _ClassVar[int]
    TINY_THREADS_FIELD_NUMBER: _ClassVar[int]
    TINY_FP16_FIELD_NUMBER: _ClassVar[int]
    TINY_MODEL_VERIFY_FIELD_NUMBER: _ClassVar[int]
    TINY_CODEC_FIELD_NUMBER: _ClassVar[int]
    TINY_PRESET_FIELD_NUMBER: _ClassVar[int]
    TINY_CRF_FIELD_NUMBER: _ClassVar[int]
    TINY_RESIZE_FIELD_NUMBER: _ClassVar[int]
    NO_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    VIEW_DISTANCE_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TARGET_WIDTH_FIELD_NUMBER: _ClassVar[int]
    TARGET_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TARGET_SCALING_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    pixel_format: str
    bitdepth: int
    disable_clip: bool
    enable_transform: bool
    backend: str
    device: str
    threads: int
    subsample: int
    frame_cnt: int
    frame_skip_ref: int
    frame_skip_dist: int
    no_prediction: bool
    cpumask: int
    gpumask: int
    feature: _containers.RepeatedScalarFieldContainer[str]
    aom_ctc: str
    nflx_ctc: str
    tiny_model: str
    tiny_device: str
    tiny_threads: int
    tiny_fp16: bool
    tiny_model_verify: bool
    tiny_codec: str
    tiny_preset: str
    tiny_crf: int
    tiny_resize: str
    no_reference: bool
    precision: str
    view_distance: float
    display_height: int
    target_width: int
    target_height: int
    target_scaling: str
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., pixel_format: _Optional[str] = ..., bitdepth: _Optional[int] = ..., disable_clip: _Optional[bool] = ..., enable_transform: _Optional[bool] = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., threads: _Optional[int] = ..., subsample: _Optional[int] = ..., frame_cnt: _Optional[int] = ..., frame_skip_ref: _Optional[int] = ..., frame_skip_dist: _Optional[int] = ..., no_prediction: _Optional[bool] = ..., cpumask: _Optional[int] = ..., gpumask: _Optional[int] = ..., feature: _Optional[_Iterable[str]] = ..., aom_ctc: _Optional[str] = ..., nflx_ctc: _Optional[str] = ..., tiny_model: _Optional[str] = ..., tiny_device: _Optional[str] = ..., tiny_threads: _Optional[int] = ..., tiny_fp16: _Optional[bool] = ..., tiny_model_verify: _Optional[bool] = ..., tiny_codec: _Optional[str] = ..., tiny_preset: _Optional[str] = ..., tiny_crf: _Optional[int] = ..., tiny_resize: _Optional[str] = ..., no_reference: _Optional[bool] = ..., precision: _Optional[str] = ..., view_distance: _Optional[float] = ..., display_height: _Optional[int] = ..., target_width: _Optional[int] = ..., target_height: _Optional[int] = ..., target_scaling: _Optional[str] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("abi_major", "abi_minor", "abi_patch", "active_backend", "n_extractors", "version", "commit", "build_id", "compiler", "build_flags", "fp_policy", "backends", "rust_twins", "simd", "device_index", "device_name", "device_runtime", "n_threads", "n_subsample", "cpumask", "gpumask", "frame_width", "frame_height", "pix_fmt", "bpc", "n_frames", "n_models", "n_features", "n_annotations", "encode_record", "scores_digest", "elapsed_ns", "digest", "models", "features", "annotations")
    ABI_MAJOR_FIELD_NUMBER: _ClassVar[int]
    ABI_MINOR_FIELD_NUMBER: _ClassVar[int]
    ABI_PATCH_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BACKEND_FIELD_NUMBER: _ClassVar[int]
    N_EXTRACTORS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    BUILD_ID_FIELD_NUMBER: _ClassVar[int]
    COMPILER_FIELD_NUMBER: _ClassVar[int]
    BUILD_FLAGS_FIELD_NUMBER: _ClassVar[int]
    FP_POLICY_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    RUST_TWINS_FIELD_NUMBER: _ClassVar[int]
    SIMD_FIELD_NUMBER: _ClassVar[int]
    DEVICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DEVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    N_THREADS_FIELD_NUMBER: _ClassVar[int]
    N_SUBSAMPLE_FIELD_NUMBER: _ClassVar[int]
    CPUMASK_FIELD_NUMBER: _ClassVar[int]
    GPUMASK_FIELD_NUMBER: _ClassVar[int]
    FRAME_WIDTH_FIELD_NUMBER: _ClassVar[int]
    FRAME_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    PIX_FMT_FIELD_NUMBER: _ClassVar[int]
    BPC_FIELD_NUMBER: _ClassVar[int]
    N_FRAMES_FIELD_NUMBER: _ClassVar[int]
    N_MODELS_FIELD_NUMBER: _ClassVar[int]
    N_FEATURES_FIELD_NUMBER: _ClassVar[int]
    N_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    ENCODE_RECORD_FIELD_NUMBER: _ClassVar[int]
    SCORES_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_NS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    abi_major: int
    abi_minor: int
    abi_patch: int
    active_backend: str
    n_extractors: int
    version: str
    commit: str
    build_id: str
    compiler: str
    build_flags: str
    fp_policy: str
    backends: str
    rust_twins: int
    simd: str
    device_index: int
    device_name: str
    device_runtime: str
    n_threads: int
    n_subsample: int
    cpumask: int
    gpumask: int
    frame_width: int
    frame_height: int
    pix_fmt: str
    bpc: int
    n_frames: int
    n_models: int
    n_features: int
    n_annotations: int
    encode_record: str
    scores_digest: str
    elapsed_ns: int
    digest: str
    models: _containers.RepeatedCompositeFieldContainer[ModelProvenance]
    features: _containers.RepeatedCompositeFieldContainer[FeatureProvenance]
    annotations: _containers.RepeatedCompositeFieldContainer[Annotation]
    def __init__(self, abi_major: _Optional[int] = ..., abi_minor: _Optional[int] = ..., abi_patch: _Optional[int] = ..., active_backend: _Optional[str] = ..., n_extractors: _Optional[int] = ..., version: _Optional[str] = ..., commit: _Optional[str] = ..., build_id: _Optional[str] = ..., compiler: _Optional[str] = ..., build_flags: _Optional[str] = ..., fp_policy: _Optional[str] = ..., backends: _Optional[str] = ..., rust_twins: _Optional[int] = ..., simd: _Optional[str] = ..., device_index: _Optional[int] = ..., device_name: _Optional[str] = ..., device_runtime: _Optional[str] = ..., n_threads: _Optional[int] = ..., n_subsample: _Optional[int] = ..., cpumask: _Optional[int] = ..., gpumask: _Optional[int] = ..., frame_width: _Optional[int] = ..., frame_height: _Optional[int] = ..., pix_fmt: _Optional[str] = ..., bpc: _Optional[int] = ..., n_frames: _Optional[int] = ..., n_models: _Optional[int] = ..., n_features: _Optional[int] = ..., n_annotations: _Optional[int] = ..., encode_record: _Optional[str] = ..., scores_digest: _Optional[str] = ..., elapsed_ns: _Optional[int] = ..., digest: _Optional[str] = ..., models: _Optional[_Iterable[_Union[ModelProvenance, _Mapping[str, object]]]] = ..., features: _Optional[_Iterable[_Union[FeatureProvenance, _Mapping[str, object]]]] = ..., annotations: _Optional[_Iterable[_Union[Annotation, _Mapping[str, object]]]] = ...) -> None: ...

class ModelProvenance(_message.Message):
    __slots__ = ("name", "version", "sha256", "flags", "overrides")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    sha256: str
    flags: int
    overrides: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., sha256: _Optional[str] = ..., flags: _Optional[int] = ..., overrides: _Optional[str] = ...) -> None: ...

class FeatureProvenance(_message.Message):
    __slots__ = ("feature", "extractor", "implementation", "backend", "device", "runtime", "options", "exactness", "source")
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    feature: str
    extractor: str
    implementation: str
    backend: str
    device: str
    runtime: str
    options: str
    exactness: str
    source: str
    def __init__(self, feature: _Optional[str] = ..., extractor: _Optional[str] = ..., implementation: _Optional[str] = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., runtime: _Optional[str] = ..., options: _Optional[str] = ..., exactness: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class Annotation(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
