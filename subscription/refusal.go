package subscription

// Code says why a request about a subscription is refused. Its text is what
// clients see in error.code.
type Code string

// The codes. Those that PROTOCOL.md does not name are the reference server's,
// but for FilterUnsupported and LimitExceeded, which are ours. The statuses that
// belong to them are the transport's.
const (
	InvalidRequest    Code = "INVALID_REQUEST"             // 400
	FilterUnsupported Code = "FILTER_UNSUPPORTED"          // 400, §7.4.1
	URLRejected       Code = "WEBHOOK_URL_REJECTED"        // 400, §6.2, §12.8
	InvalidOffset     Code = "INVALID_OFFSET"              // 400, §7: an ack that names no place of a linked stream
	TokenInvalid      Code = "TOKEN_INVALID"               // 401, §7.3, §12.9
	TokenExpired      Code = "TOKEN_EXPIRED"               // 401
	NotFound          Code = "SUBSCRIPTION_NOT_FOUND"      // 404
	AlreadyExists     Code = "SUBSCRIPTION_ALREADY_EXISTS" // 409, §6.2: with another configuration
	Fenced            Code = "FENCED"                      // 409, §7.1–7.3: another wake, or none
	AlreadyClaimed    Code = "ALREADY_CLAIMED"             // 409, §7.2, with Holder and Generation
	NoPendingWork     Code = "NO_PENDING_WORK"             // 409: a claim of a subscription at rest
	LimitExceeded     Code = "LIMIT_EXCEEDED"              // 429: more subscriptions or links than allowed
)

// Refusal is an error that tells the client why nothing was done. Message is safe
// to show to it.
type Refusal struct {
	Code       Code
	Message    string
	Holder     string // AlreadyClaimed: current_holder
	Generation uint64 // AlreadyClaimed
}

func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Message }

// Is reports whether target is a refusal with the same code.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Code == r.Code
}

func refuse(code Code, message string) *Refusal { return &Refusal{Code: code, Message: message} }
