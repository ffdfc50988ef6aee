//! Why a login ends without a session, and the status it is refused with.

use wire::iscsi::text::TextError;
use wire::iscsi::{LoginStatus, name::NameError};

use super::chap::ChapError;

/// Why a login was refused. The text is for the log: the wire only carries [`Self::status`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The first PDU of the connection was not a login request (section 6.3: no answer).
    #[error("the first PDU was not a login request")]
    NotALogin,
    /// Another PDU came in the middle of a login.
    #[error("a PDU other than a login request came during login")]
    OtherPdu,
    /// A request came when it was not the initiator's turn.
    #[error("a login request came before the last one was answered")]
    OutOfTurn,
    /// More than [`crate::limits::LOGIN_EXCHANGES`] requests.
    #[error("the login took more than {} requests", crate::limits::LOGIN_EXCHANGES)]
    TooManyExchanges,
    /// The initiator wants a newer protocol.
    #[error("the initiator speaks protocol versions {min} to {max}, this target speaks 0")]
    UnsupportedVersion {
        /// Version-min.
        min: u8,
        /// Version-max.
        max: u8,
    },
    /// ISID, TSIH, CID, tag or version changed between requests.
    #[error("the identity of the connection changed during login")]
    IdentityChanged,
    /// CSG is not the stage we are in, or reserved.
    #[error("the current stage of the request is not the stage of the login")]
    WrongStage,
    /// NSG is not after CSG, or reserved.
    #[error("the next stage of the request cannot follow the current one")]
    WrongNextStage,
    /// T and C together.
    #[error("a request both continues and asks for the next stage")]
    ContinuedTransit,
    /// More than [`crate::limits::REQUEST_TEXT_BYTES`] bytes or [`crate::limits::REQUEST_PAIRS`] pairs.
    #[error("the text of a request is too long")]
    TextTooLong,
    /// The answer does not fit into a PDU.
    #[error("the answer to a request does not fit into {} bytes", crate::limits::LOGIN_RESPONSE_BYTES)]
    AnswerTooLong,
    /// The text cannot be read.
    #[error("bad text: {0}")]
    Text(#[from] TextError),
    /// A key came twice.
    #[error("the key {0} came twice")]
    Duplicate(String),
    /// A key that must be there was missing.
    #[error("the key {0} is missing")]
    Missing(&'static str),
    /// A name is none.
    #[error("{key}: {error}")]
    Name {
        /// The key.
        key: &'static str,
        /// What is wrong.
        error: NameError,
    },
    /// Neither Normal nor Discovery.
    #[error("session type {0:?} is not known")]
    SessionType(String),
    /// A discovery session has one connection only.
    #[error("a connection was to be added to a discovery session")]
    DiscoveryIsSingle,
    /// A key of the security stage came in another stage.
    #[error("the key {0} came outside of the security stage")]
    SecurityKeyOutside(String),
    /// The target asks for CHAP and the initiator did not offer it.
    #[error("the target asks for CHAP, which the initiator did not offer")]
    AuthenticationRequired,
    /// The initiator insists on a method that the target has no credentials for.
    #[error("no authentication method in common: the initiator offers {0:?}, the target wants none")]
    NoCommonMethod(String),
    /// CHAP failed.
    #[error("CHAP: {0}")]
    Chap(#[from] ChapError),
    /// The directory refused the target.
    #[error("the target cannot be used: {0}")]
    Directory(LoginStatus),
    /// The session layer refused the connection.
    #[error("the session cannot be made: {0}")]
    Session(LoginStatus),
}

impl LoginError {
    /// Whether somebody wanted to come in who may not, or could not prove who he is: not one who speaks badly.
    pub fn is_kept_out(&self) -> bool {
        matches!(
            self,
            Self::AuthenticationRequired | Self::NoCommonMethod(_) | Self::Chap(_) | Self::Directory(_)
        )
    }

    /// Why, as the end of a sentence.
    pub fn for_people(&self) -> String {
        match self {
            Self::Directory(LoginStatus::NOT_FOUND) => "there is no such target".to_owned(),
            Self::Directory(LoginStatus::AUTHORIZATION_FAILURE) => "it may not use this target".to_owned(),
            other => other.to_string(),
        }
    }

    /// Status class and detail, section 11.13.5.
    pub const fn status(&self) -> LoginStatus {
        match self {
            Self::NotALogin | Self::OtherPdu => LoginStatus::INVALID_REQUEST_DURING_LOGIN,
            Self::UnsupportedVersion { .. } => LoginStatus::UNSUPPORTED_VERSION,
            Self::Missing(_) => LoginStatus::MISSING_PARAMETER,
            Self::SessionType(_) => LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
            Self::AuthenticationRequired | Self::NoCommonMethod(_) => LoginStatus::AUTHENTICATION_FAILURE,
            Self::Chap(error) => error.status(),
            Self::AnswerTooLong => LoginStatus::OUT_OF_RESOURCES,
            Self::Directory(status) | Self::Session(status) => *status,
            Self::OutOfTurn
            | Self::TooManyExchanges
            | Self::IdentityChanged
            | Self::WrongStage
            | Self::WrongNextStage
            | Self::ContinuedTransit
            | Self::TextTooLong
            | Self::Text(_)
            | Self::Duplicate(_)
            | Self::Name { .. }
            | Self::DiscoveryIsSingle
            | Self::SecurityKeyOutside(_) => LoginStatus::INITIATOR_ERROR,
        }
    }
}
