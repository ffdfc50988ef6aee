//! What is done now, and where the time of that goes.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use plane::layers::Followed;
use plane::request::Verb;
use plane::volume::Figures;

use super::model::{Activity, LayerTime, Times, VolumeActivity, VolumeTime};
use super::wish::Names;
use super::{Context, Problem, volumes};
use crate::collect::{Cores, shares};

/// Tells what every volume has done since it is served, and where the time of its requests goes.
#[utoipa::path(
    get, path = "/v1/activity", tag = "node",
    responses(
        (status = 200, body = Activity),
        (status = 503, body = Problem, description = "The node is stopping.")
    )
)]
pub(super) async fn all(State(context): State<Context>) -> Result<Json<Activity>, Problem> {
    let (cores, lately) = look(&context).await?;
    let volume = |(figures, lately): (&Figures, &Followed)| VolumeActivity {
        sessions: cores.crowd.sessions(figures.place),
        ..of(figures, lately)
    };
    let volumes = cores.volumes.iter().zip(&lately).map(volume).collect();
    Ok(Json(Activity { uptime_s: context.collector().uptime().as_secs_f64(), volumes }))
}

/// Tells in which layers the time of a volume goes: of all its requests, and of the slowest hundredth.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}/time", tag = "volumes",
    params(("volume" = String, Path, description = "The name of the volume.")),
    responses(
        (status = 200, body = VolumeTime),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "No such volume is served."),
        (status = 503, body = Problem, description = "The node is stopping.")
    )
)]
pub(super) async fn time(
    State(context): State<Context>,
    Names(name): Names<String>,
) -> Result<Json<VolumeTime>, Problem> {
    let (cores, lately) = look(&context).await?;
    let Some(at) = cores.volumes.iter().position(|figures| figures.name == name) else {
        return Err(volumes::not_served(&context, &name));
    };
    Ok(Json(VolumeTime { volume: name, time: times(&cores.volumes[at], &lately[at]) }))
}

async fn look(context: &Context) -> Result<(Cores, Vec<Followed>), Problem> {
    let cores = context.collector().cores().await.ok_or_else(|| Problem::late("the node is stopping"))?;
    let lately = context.collector().lately(&cores);
    Ok((cores, lately))
}

fn of(figures: &Figures, lately: &Followed) -> VolumeActivity {
    let [read, write] = [Verb::Read, Verb::Write].map(|verb| &figures.verbs[verb as usize]);
    let requests: u64 = figures.verbs.iter().map(|counted| counted.requests).sum();
    let taken = [read, write].map(|counted| counted.times.as_ref().map_or(0, |times| times.sum));
    VolumeActivity {
        name: figures.name.clone(),
        reads: read.requests,
        writes: write.requests,
        others: requests - read.requests - write.requests,
        read_bytes: read.bytes,
        written_bytes: write.bytes,
        errors: figures.verbs.iter().map(|counted| counted.errors).sum(),
        taken_s: taken.map(|nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64()).iter().sum(),
        in_flight: figures.in_flight as u64,
        sessions: 0,
        time: times(figures, lately),
    }
}

fn times(figures: &Figures, lately: &Followed) -> Times {
    let (mean, slowest) = (lately.means(), lately.slowest(100).means());
    let (mean_shares, slowest_shares) = (shares(&mean), shares(&slowest));
    let us = |time: &Duration| time.as_secs_f64() * 1e6;
    let share = |shares: &[f64], at: usize| shares.get(at).copied().unwrap_or_default();
    let names = figures.layers.iter().zip(&mean).zip(&slowest).enumerate();
    let layers = names.map(|(at, (((name, _), mean), slowest))| LayerTime {
        layer: (*name).to_owned(),
        mean_us: us(mean),
        mean_share: share(&mean_shares, at),
        slowest_us: us(slowest),
        slowest_share: share(&slowest_shares, at),
    });
    let whole = |times: &[Duration]| us(&times.iter().sum());
    Times {
        followed: lately.requests(),
        mean_us: whole(&mean),
        slowest_us: whole(&slowest),
        layers: layers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plane::layers::{Alike, Spent};
    use plane::meter::VerbFigures;

    #[test]
    fn each_layer_has_its_part_of_the_mean_and_of_the_slowest() {
        let layers = vec![("limit", Spent::default()), ("disk", Spent::default())];
        let mut figures = Figures { in_flight: 2, layers, ..Figures::new(0, "demo") };
        figures.verbs[Verb::Flush as usize] = VerbFigures { requests: 3, ..VerbFigures::default() };
        figures.verbs[Verb::Write as usize] = VerbFigures { requests: 4, bytes: 8, ..VerbFigures::default() };
        let alike = |bucket, requests, own: [u64; 2]| Alike { bucket, requests, own: own.to_vec() };
        let lately = Followed(vec![alike(9, 99, [0, 99_000]), alike(80, 1, [300_000, 101_000])]);
        let told = of(&figures, &lately);
        assert_eq!((told.reads, told.writes, told.others, told.written_bytes), (0, 4, 3, 8));
        let time = told.time;
        assert_eq!((time.followed, time.mean_us, time.slowest_us), (100, 5.0, 401.0));
        let [limit, disk] = &time.layers[..] else { panic!("two") };
        assert_eq!((limit.mean_us, limit.mean_share, limit.slowest_us), (3.0, 0.6, 300.0));
        assert_eq!((disk.layer.as_str(), disk.mean_us, disk.slowest_us), ("disk", 2.0, 101.0));
        assert!((limit.slowest_share + disk.slowest_share - 1.0).abs() < 1e-9);
        assert_eq!(of(&figures, &Followed::default()).time, Times::default());
    }
}
