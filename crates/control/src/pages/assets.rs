//! What pages need beside themselves: a style, a script and a sign, embedded. Their addresses change with their content, so that browsers keep them.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

/// One file.
struct Asset {
    name: String,
    kind: &'static str,
    text: &'static str,
}

static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("fels", "css", "text/css; charset=utf-8", include_str!("assets/fels.css")));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("fels", "js", "text/javascript; charset=utf-8", include_str!("assets/fels.js"))
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("fels", "svg", "image/svg+xml", include_str!("assets/fels.svg")));

impl Asset {
    fn new(name: &str, ending: &str, kind: &'static str, text: &'static str) -> Asset {
        let digest = Sha256::digest(text);
        let tag = digest.iter().take(6).fold(String::new(), |tag, byte| tag + &format!("{byte:02x}"));
        Asset { name: format!("{name}-{tag}.{ending}"), kind, text }
    }

    fn path(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// Where the style is.
pub(super) fn style() -> String {
    STYLE.path()
}

/// Where the script is.
pub(super) fn script() -> String {
    SCRIPT.path()
}

/// Where the sign is.
pub(super) fn icon() -> String {
    ICON.path()
}

/// Gives one of them.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let asset = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name);
    let Some(asset) = asset else { return StatusCode::NOT_FOUND.into_response() };
    let head =
        [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (head, asset.text).into_response()
}
