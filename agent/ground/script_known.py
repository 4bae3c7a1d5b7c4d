# SPDX-License-Identifier: Apache-2.0
"""Names that JavaScript always has: globals of the language, of browsers, of Node and of test programs, and members of
the language's objects. From the lib.*.d.ts of TypeScript 5.6, with some newer ones."""

from typing import Dict, FrozenSet

GLOBALS: FrozenSet[str] = frozenset((
    "$ AbortController AbortSignal AbstractRange ActiveXObject AggregateError AnalyserNode Animation "
    "AnimationEffect AnimationEvent AnimationPlaybackEvent AnimationTimeline Array ArrayBuffer "
    "AsyncDisposableStack Atomics Attr Audio AudioBuffer AudioBufferSourceNode AudioContext AudioDestinationNode "
    "AudioListener AudioNode AudioParam AudioParamMap AudioProcessingEvent AudioScheduledSourceNode AudioWorklet "
    "AudioWorkletNode AuthenticatorAssertionResponse AuthenticatorAttestationResponse AuthenticatorResponse "
    "BarProp BaseAudioContext BeforeUnloadEvent BigInt BigInt64Array BigUint64Array BiquadFilterNode Blob "
    "BlobEvent Boolean BroadcastChannel Buffer Bun ByteLengthQueuingStrategy CDATASection CSS CSSAnimation "
    "CSSConditionRule CSSContainerRule CSSCounterStyleRule CSSFontFaceRule CSSFontFeatureValuesRule "
    "CSSFontPaletteValuesRule CSSGroupingRule CSSImageValue CSSImportRule CSSKeyframeRule CSSKeyframesRule "
    "CSSKeywordValue CSSLayerBlockRule CSSLayerStatementRule CSSMathClamp CSSMathInvert CSSMathMax CSSMathMin "
    "CSSMathNegate CSSMathProduct CSSMathSum CSSMathValue CSSMatrixComponent CSSMediaRule CSSNamespaceRule "
    "CSSNumericArray CSSNumericValue CSSPageRule CSSPerspective CSSPropertyRule CSSRotate CSSRule CSSRuleList "
    "CSSScale CSSScopeRule CSSSkew CSSSkewX CSSSkewY CSSStartingStyleRule CSSStyleDeclaration CSSStyleRule "
    "CSSStyleSheet CSSStyleValue CSSSupportsRule CSSTransformComponent CSSTransformValue CSSTransition "
    "CSSTranslate CSSUnitValue CSSUnparsedValue CSSVariableReferenceValue Cache CacheStorage "
    "CanvasCaptureMediaStreamTrack CanvasGradient CanvasPattern CanvasRenderingContext2D ChannelMergerNode "
    "ChannelSplitterNode CharacterData Client Clients Clipboard ClipboardEvent ClipboardItem CloseEvent Comment "
    "CompositionEvent CompressionStream ConstantSourceNode ContentVisibilityAutoStateChangeEvent ConvolverNode "
    "CountQueuingStrategy Credential CredentialsContainer Crypto CryptoKey CustomElementRegistry CustomEvent "
    "CustomStateSet Cypress DOMException DOMImplementation DOMMatrix DOMMatrixReadOnly DOMParser DOMPoint "
    "DOMPointReadOnly DOMQuad DOMRect DOMRectList DOMRectReadOnly DOMStringList DOMStringMap DOMTokenList "
    "DataTransfer DataTransferItem DataTransferItemList DataView Date DecompressionStream "
    "DedicatedWorkerGlobalScope DelayNode Deno DeviceMotionEvent DeviceOrientationEvent DisposableStack Document "
    "DocumentFragment DocumentTimeline DocumentType DragEvent DynamicsCompressorNode Element ElementInternals "
    "EncodedVideoChunk Enumerator Error ErrorEvent EvalError Event EventCounts EventSource EventTarget "
    "ExtendableEvent ExtendableMessageEvent External FetchEvent File FileList FileReader FileReaderSync "
    "FileSystem FileSystemDirectoryEntry FileSystemDirectoryHandle FileSystemDirectoryReader FileSystemEntry "
    "FileSystemFileEntry FileSystemFileHandle FileSystemHandle FileSystemSyncAccessHandle "
    "FileSystemWritableFileStream FinalizationRegistry Float16Array Float32Array Float64Array FocusEvent FontFace "
    "FontFaceSet FontFaceSetLoadEvent FormData FormDataEvent Function GainNode Gamepad GamepadButton GamepadEvent "
    "GamepadHapticActuator Geolocation GeolocationCoordinates GeolocationPosition GeolocationPositionError "
    "HTMLAllCollection HTMLAnchorElement HTMLAreaElement HTMLAudioElement HTMLBRElement HTMLBaseElement "
    "HTMLBodyElement HTMLButtonElement HTMLCanvasElement HTMLCollection HTMLDListElement HTMLDataElement "
    "HTMLDataListElement HTMLDetailsElement HTMLDialogElement HTMLDirectoryElement HTMLDivElement HTMLDocument "
    "HTMLElement HTMLEmbedElement HTMLFieldSetElement HTMLFontElement HTMLFormControlsCollection HTMLFormElement "
    "HTMLFrameElement HTMLFrameSetElement HTMLHRElement HTMLHeadElement HTMLHeadingElement HTMLHtmlElement "
    "HTMLIFrameElement HTMLImageElement HTMLInputElement HTMLLIElement HTMLLabelElement HTMLLegendElement "
    "HTMLLinkElement HTMLMapElement HTMLMarqueeElement HTMLMediaElement HTMLMenuElement HTMLMetaElement "
    "HTMLMeterElement HTMLModElement HTMLOListElement HTMLObjectElement HTMLOptGroupElement HTMLOptionElement "
    "HTMLOptionsCollection HTMLOutputElement HTMLParagraphElement HTMLParamElement HTMLPictureElement "
    "HTMLPreElement HTMLProgressElement HTMLQuoteElement HTMLScriptElement HTMLSelectElement HTMLSlotElement "
    "HTMLSourceElement HTMLSpanElement HTMLStyleElement HTMLTableCaptionElement HTMLTableCellElement "
    "HTMLTableColElement HTMLTableElement HTMLTableRowElement HTMLTableSectionElement HTMLTemplateElement "
    "HTMLTextAreaElement HTMLTimeElement HTMLTitleElement HTMLTrackElement HTMLUListElement HTMLUnknownElement "
    "HTMLVideoElement HashChangeEvent Headers Highlight HighlightRegistry History IDBCursor IDBCursorWithValue "
    "IDBDatabase IDBFactory IDBIndex IDBKeyRange IDBObjectStore IDBOpenDBRequest IDBRequest IDBTransaction "
    "IDBVersionChangeEvent IIRFilterNode IdleDeadline Image ImageBitmap ImageBitmapRenderingContext ImageData "
    "Infinity InputDeviceInfo InputEvent Int16Array Int32Array Int8Array IntersectionObserver "
    "IntersectionObserverEntry Intl Iterator JSON KeyboardEvent KeyframeEffect LargestContentfulPaint Location "
    "Lock LockManager MIDIAccess MIDIConnectionEvent MIDIInput MIDIInputMap MIDIMessageEvent MIDIOutput "
    "MIDIOutputMap MIDIPort Map Math MathMLElement MediaCapabilities MediaDeviceInfo MediaDevices "
    "MediaElementAudioSourceNode MediaEncryptedEvent MediaError MediaKeyMessageEvent MediaKeySession "
    "MediaKeyStatusMap MediaKeySystemAccess MediaKeys MediaList MediaMetadata MediaQueryList MediaQueryListEvent "
    "MediaRecorder MediaSession MediaSource MediaSourceHandle MediaStream MediaStreamAudioDestinationNode "
    "MediaStreamAudioSourceNode MediaStreamTrack MediaStreamTrackEvent MediaStreamTrackProcessor MessageChannel "
    "MessageEvent MessagePort MimeType MimeTypeArray MouseEvent MutationEvent MutationObserver MutationRecord NaN "
    "NamedNodeMap NavigationPreloadManager Navigator Node NodeFilter NodeIterator NodeList Notification "
    "NotificationEvent Number Object OfflineAudioCompletionEvent OfflineAudioContext OffscreenCanvas "
    "OffscreenCanvasRenderingContext2D Option OscillatorNode OverconstrainedError PageTransitionEvent PannerNode "
    "Path2D PaymentMethodChangeEvent PaymentRequest PaymentRequestUpdateEvent PaymentResponse Performance "
    "PerformanceEntry PerformanceEventTiming PerformanceMark PerformanceMeasure PerformanceNavigation "
    "PerformanceNavigationTiming PerformanceObserver PerformanceObserverEntryList PerformancePaintTiming "
    "PerformanceResourceTiming PerformanceServerTiming PerformanceTiming PeriodicWave PermissionStatus "
    "Permissions PictureInPictureEvent PictureInPictureWindow Plugin PluginArray PointerEvent PopStateEvent "
    "ProcessingInstruction ProgressEvent Promise PromiseRejectionEvent Proxy PublicKeyCredential PushEvent "
    "PushManager PushMessageData PushSubscription PushSubscriptionOptions QUnit RTCCertificate RTCDTMFSender "
    "RTCDTMFToneChangeEvent RTCDataChannel RTCDataChannelEvent RTCDtlsTransport RTCEncodedAudioFrame "
    "RTCEncodedVideoFrame RTCError RTCErrorEvent RTCIceCandidate RTCIceTransport RTCPeerConnection "
    "RTCPeerConnectionIceErrorEvent RTCPeerConnectionIceEvent RTCRtpReceiver RTCRtpScriptTransform "
    "RTCRtpScriptTransformer RTCRtpSender RTCRtpTransceiver RTCSctpTransport RTCSessionDescription RTCStatsReport "
    "RTCTrackEvent RTCTransformEvent RadioNodeList Range RangeError ReadableByteStreamController ReadableStream "
    "ReadableStreamBYOBReader ReadableStreamBYOBRequest ReadableStreamDefaultController "
    "ReadableStreamDefaultReader ReferenceError Reflect RegExp RemotePlayback Report ReportBody ReportingObserver "
    "Request ResizeObserver ResizeObserverEntry ResizeObserverSize Response SVGAElement SVGAngle "
    "SVGAnimateElement SVGAnimateMotionElement SVGAnimateTransformElement SVGAnimatedAngle SVGAnimatedBoolean "
    "SVGAnimatedEnumeration SVGAnimatedInteger SVGAnimatedLength SVGAnimatedLengthList SVGAnimatedNumber "
    "SVGAnimatedNumberList SVGAnimatedPreserveAspectRatio SVGAnimatedRect SVGAnimatedString "
    "SVGAnimatedTransformList SVGAnimationElement SVGCircleElement SVGClipPathElement "
    "SVGComponentTransferFunctionElement SVGDefsElement SVGDescElement SVGElement SVGEllipseElement "
    "SVGFEBlendElement SVGFEColorMatrixElement SVGFEComponentTransferElement SVGFECompositeElement "
    "SVGFEConvolveMatrixElement SVGFEDiffuseLightingElement SVGFEDisplacementMapElement SVGFEDistantLightElement "
    "SVGFEDropShadowElement SVGFEFloodElement SVGFEFuncAElement SVGFEFuncBElement SVGFEFuncGElement "
    "SVGFEFuncRElement SVGFEGaussianBlurElement SVGFEImageElement SVGFEMergeElement SVGFEMergeNodeElement "
    "SVGFEMorphologyElement SVGFEOffsetElement SVGFEPointLightElement SVGFESpecularLightingElement "
    "SVGFESpotLightElement SVGFETileElement SVGFETurbulenceElement SVGFilterElement SVGForeignObjectElement "
    "SVGGElement SVGGeometryElement SVGGradientElement SVGGraphicsElement SVGImageElement SVGLength SVGLengthList "
    "SVGLineElement SVGLinearGradientElement SVGMPathElement SVGMarkerElement SVGMaskElement SVGMatrix "
    "SVGMetadataElement SVGNumber SVGNumberList SVGPathElement SVGPatternElement SVGPoint SVGPointList "
    "SVGPolygonElement SVGPolylineElement SVGPreserveAspectRatio SVGRadialGradientElement SVGRect SVGRectElement "
    "SVGSVGElement SVGScriptElement SVGSetElement SVGStopElement SVGStringList SVGStyleElement SVGSwitchElement "
    "SVGSymbolElement SVGTSpanElement SVGTextContentElement SVGTextElement SVGTextPathElement "
    "SVGTextPositioningElement SVGTitleElement SVGTransform SVGTransformList SVGUnitTypes SVGUseElement "
    "SVGViewElement SafeArray Screen ScreenOrientation ScriptProcessorNode SecurityPolicyViolationEvent Selection "
    "ServiceWorker ServiceWorkerContainer ServiceWorkerGlobalScope ServiceWorkerRegistration Set ShadowRoot "
    "SharedArrayBuffer SharedWorker SharedWorkerGlobalScope SourceBuffer SourceBufferList "
    "SpeechRecognitionAlternative SpeechRecognitionResult SpeechRecognitionResultList SpeechSynthesis "
    "SpeechSynthesisErrorEvent SpeechSynthesisEvent SpeechSynthesisUtterance SpeechSynthesisVoice StaticRange "
    "StereoPannerNode Storage StorageEvent StorageManager String StylePropertyMap StylePropertyMapReadOnly "
    "StyleSheet StyleSheetList SubmitEvent SubtleCrypto SuppressedError Symbol SyntaxError Temporal Text "
    "TextDecoder TextDecoderStream TextEncoder TextEncoderStream TextEvent TextMetrics TextTrack TextTrackCue "
    "TextTrackCueList TextTrackList TimeRanges ToggleEvent Touch TouchEvent TouchList TrackEvent TransformStream "
    "TransformStreamDefaultController TransitionEvent TreeWalker TypeError UIEvent URIError URL URLSearchParams "
    "Uint16Array Uint32Array Uint8Array Uint8ClampedArray UserActivation VBArray VTTCue VTTRegion ValidityState "
    "VarDate VideoColorSpace VideoDecoder VideoEncoder VideoFrame VideoPlaybackQuality ViewTransition "
    "VisualViewport WSH WScript WakeLock WakeLockSentinel WaveShaperNode WeakMap WeakRef WeakSet WebAssembly "
    "WebGL2RenderingContext WebGLActiveInfo WebGLBuffer WebGLContextEvent WebGLFramebuffer WebGLProgram "
    "WebGLQuery WebGLRenderbuffer WebGLRenderingContext WebGLSampler WebGLShader WebGLShaderPrecisionFormat "
    "WebGLSync WebGLTexture WebGLTransformFeedback WebGLUniformLocation WebGLVertexArrayObject WebKitCSSMatrix "
    "WebSocket WebTransport WebTransportBidirectionalStream WebTransportDatagramDuplexStream WebTransportError "
    "WheelEvent Window WindowClient Worker WorkerGlobalScope WorkerLocation WorkerNavigator Worklet "
    "WritableStream WritableStreamDefaultController WritableStreamDefaultWriter XMLDocument XMLHttpRequest "
    "XMLHttpRequestEventTarget XMLHttpRequestUpload XMLSerializer XPathEvaluator XPathExpression XPathResult "
    "XSLTProcessor _ __dirname __filename addEventListener after afterAll afterEach alert arguments assert "
    "assertType atob before beforeAll beforeEach beforeEachAll bench blur browser btoa caches "
    "cancelAnimationFrame cancelIdleCallback captureEvents chai clearImmediate clearInterval clearTimeout "
    "clientInformation close closed confirm console context createImageBitmap crossOriginIsolated crypto "
    "customElements cy decodeURI decodeURIComponent define describe devicePixelRatio dispatchEvent document "
    "encodeURI encodeURIComponent escape eval event expect expectTypeOf exports external fdescribe fetch fit "
    "focus fonts frameElement frames ftest gc getComputedStyle getSelection global globalThis history "
    "importScripts indexedDB innerHeight innerWidth isFinite isNaN isSecureContext it jQuery jasmine jest length "
    "localStorage location locationbar matchMedia menubar mocha module moveBy moveTo name navigator onabort "
    "onafterprint onanimationcancel onanimationend onanimationiteration onanimationstart onauxclick onbeforeinput "
    "onbeforeprint onbeforetoggle onbeforeunload onblur oncancel oncanplay oncanplaythrough onchange onclick "
    "onclose oncontextlost oncontextmenu oncontextrestored oncopy oncuechange oncut ondblclick ondevicemotion "
    "ondeviceorientation ondeviceorientationabsolute ondrag ondragend ondragenter ondragleave ondragover "
    "ondragstart ondrop ondurationchange onemptied onended onerror onfocus onformdata ongamepadconnected "
    "ongamepaddisconnected ongotpointercapture onhashchange oninput oninvalid onkeydown onkeypress onkeyup "
    "onlanguagechange onload onloadeddata onloadedmetadata onloadstart onlostpointercapture onmessage "
    "onmessageerror onmousedown onmouseenter onmouseleave onmousemove onmouseout onmouseover onmouseup onoffline "
    "ononline onorientationchange onpagehide onpageshow onpaste onpause onplay onplaying onpointercancel "
    "onpointerdown onpointerenter onpointerleave onpointermove onpointerout onpointerover onpointerup onpopstate "
    "onprogress onratechange onrejectionhandled onreset onresize onrtctransform onscroll onscrollend "
    "onsecuritypolicyviolation onseeked onseeking onselect onselectionchange onselectstart onslotchange onstalled "
    "onstorage onsubmit onsuspend ontimeupdate ontoggle ontouchcancel ontouchend ontouchmove ontouchstart "
    "ontransitioncancel ontransitionend ontransitionrun ontransitionstart onunhandledrejection onunload "
    "onvolumechange onwaiting onwebkitanimationend onwebkitanimationiteration onwebkitanimationstart "
    "onwebkittransitionend onwheel open opener orientation origin outerHeight outerWidth page pageXOffset "
    "pageYOffset parent parseFloat parseInt performance personalbar postMessage print process prompt "
    "queueMicrotask releaseEvents removeEventListener reportError requestAnimationFrame requestIdleCallback "
    "require resizeBy resizeTo screen screenLeft screenTop screenX screenY scroll scrollBy scrollTo scrollX "
    "scrollY scrollbars self sessionStorage setImmediate setInterval setTimeout setup sinon specify "
    "speechSynthesis status statusbar stop structuredClone suite teardown test toString toolbar top undefined "
    "unescape vi visualViewport vitest webkitURL window xdescribe xit xtest").split())

# Members of a value of the type
OF_INSTANCES: Dict[str, FrozenSet[str]] = {
    "String": frozenset((
        "anchor at big blink bold charAt charCodeAt codePointAt concat endsWith fixed fontcolor fontsize includes "
        "indexOf isWellFormed italics lastIndexOf length link localeCompare match matchAll normalize padEnd "
        "padStart repeat replace replaceAll search slice small split startsWith strike sub substr substring sup "
        "toLocaleLowerCase toLocaleUpperCase toLowerCase toString toUpperCase toWellFormed trim trimEnd trimLeft "
        "trimRight trimStart valueOf").split()),
    "Number": frozenset((
        "toExponential toFixed toLocaleString toPrecision toString valueOf").split()),
    "Boolean": frozenset((
        "valueOf").split()),
    "Array": frozenset((
        "at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap "
        "forEach includes indexOf join keys lastIndexOf length map pop push reduce reduceRight reverse shift "
        "slice some sort splice toLocaleString toReversed toSorted toSpliced toString unshift values with").split()),
    "RegExp": frozenset((
        "compile dotAll exec flags global groups hasIndices ignoreCase index indices input lastIndex multiline "
        "source sticky test unicode unicodeSets").split()),
    "Promise": frozenset((
        "catch finally then").split()),
    "Map": frozenset((
        "clear delete entries forEach get getOrInsert getOrInsertComputed has keys set size values").split()),
    "Set": frozenset((
        "add clear delete difference entries forEach has intersection isDisjointFrom isSubsetOf isSupersetOf keys "
        "size symmetricDifference union values").split()),
    "Date": frozenset((
        "getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime "
        "getTimezoneOffset getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes "
        "getUTCMonth getUTCSeconds setDate setFullYear setHours setMilliseconds setMinutes setMonth setSeconds "
        "setTime setUTCDate setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth setUTCSeconds "
        "toDateString toISOString toJSON toLocaleDateString toLocaleString toLocaleTimeString toString "
        "toTemporalInstant toTimeString toUTCString valueOf").split()),
    "Error": frozenset((
        "cause code errno message name path stack syscall toString").split()),
}

# Members of the global object
OF_OBJECTS: Dict[str, FrozenSet[str]] = {
    "Math": frozenset((
        "E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz32 cos "
        "cosh exp expm1 f16round floor fround hypot imul log log10 log1p log2 max min pow random round sign sin "
        "sinh sqrt sumPrecise tan tanh trunc").split()),
    "JSON": frozenset((
        "isRawJSON parse rawJSON stringify").split()),
    "Reflect": frozenset((
        "apply construct defineProperty deleteProperty get getOwnPropertyDescriptor getPrototypeOf has "
        "isExtensible ownKeys preventExtensions set setPrototypeOf").split()),
    "Object": frozenset((
        "assign create defineProperties defineProperty entries freeze fromEntries getOwnPropertyDescriptor "
        "getOwnPropertyDescriptors getOwnPropertyNames getOwnPropertySymbols getPrototypeOf groupBy hasOwn is "
        "isExtensible isFrozen isSealed keys preventExtensions prototype seal setPrototypeOf values").split()),
    "Array": frozenset((
        "from fromAsync isArray of prototype").split()),
    "Number": frozenset((
        "EPSILON MAX_SAFE_INTEGER MAX_VALUE MIN_SAFE_INTEGER MIN_VALUE NEGATIVE_INFINITY NaN POSITIVE_INFINITY "
        "isFinite isInteger isNaN isSafeInteger parseFloat parseInt prototype").split()),
    "String": frozenset((
        "fromCharCode fromCodePoint prototype raw").split()),
    "Promise": frozenset((
        "all allSettled any prototype race reject resolve try withResolvers").split()),
    "Date": frozenset((
        "UTC now parse prototype").split()),
    "Symbol": frozenset((
        "asyncDispose asyncIterator dispose for hasInstance isConcatSpreadable iterator keyFor match matchAll "
        "metadata observable prototype replace search species split toPrimitive toStringTag unscopables").split()),
}

# Modules of Node
NODE_MODULES: FrozenSet[str] = frozenset((
    "assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram "
    "diagnostics_channel dns dns/promises domain events fs fs/promises http http2 https inspector "
    "inspector/promises module net os path path/posix path/win32 perf_hooks process punycode querystring readline "
    "readline/promises repl sea sqlite stream stream/consumers stream/promises stream/web string_decoder sys test "
    "test/reporters timers timers/promises tls trace_events tty url util util/types v8 vm wasi worker_threads "
    "zlib").split())
