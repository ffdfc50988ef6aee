//! The pages over an API that is not there: what they do by themselves.

use super::*;
use axum::body::{Body, to_bytes};

fn ask(path: &str, accept: &str) -> (StatusCode, axum::http::HeaderMap, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let api = Router::new().fallback(|| async { nowhere() });
    let request = Request::builder().uri(path).header(header::ACCEPT, accept).body(Body::empty()).unwrap();
    runtime.block_on(async {
        let response = TowerToHyperService::new(router(api)).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 1 << 20).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(bytes.into()).unwrap())
    })
}

#[test]
fn browsers_are_told_in_pages_and_programs_in_json() {
    let (status, headers, page) = ask("/none", "text/html,*/*");
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"), "{headers:?}");
    assert!(page.contains("There is no such page"), "{page}");
    for (path, accept) in [("/none", "*/*"), ("/v1/none", "text/html")] {
        let (status, headers, _) = ask(path, accept);
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{path}");
    }
}

#[test]
fn what_is_embedded_is_kept_by_browsers_and_loads_nothing_from_elsewhere() {
    for (path, kind) in [
        (assets::style(), "text/css"),
        (assets::script(), "text/javascript"),
        (assets::icon(), "image/svg+xml"),
    ] {
        let (status, headers, text) = ask(&path, "*/*");
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with(kind));
        assert!(headers[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("://") && !elsewhere.contains("@import"), "{path}");
    }
    assert_eq!(ask("/assets/none.css", "*/*").0, StatusCode::NOT_FOUND);
}
